"""Models of Anthropic, through its own Messages API."""

from __future__ import annotations

from runtime.models.anthropic.model import AnthropicModel

__all__ = ["AnthropicModel"]
