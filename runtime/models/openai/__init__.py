"""Models behind services that speak Chat Completions: OpenAI's, and those of many others."""

from __future__ import annotations

from runtime.models.openai.model import OpenAIModel

__all__ = ["OpenAIModel"]
