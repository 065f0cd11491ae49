"""The agents of trees of which actors are lost."""

from __future__ import annotations

from typing import Any

from actors import LlmAgent, ToolContext
from actors.testing import PatternModel
from tests.support.models.metered_model import MeteredModel


def count(key: str, tool_context: ToolContext) -> str:
    """Count in the session's state."""
    tool_context.state[key] = tool_context.state.get(key, 0) + 1
    tool_context.state["temp:last"] = key
    return f"{key} {tool_context.state[key]}"


def ask() -> None:
    """Ask a human."""


def talker(name: str, *replies: tuple[str, Any], **fields: Any) -> LlmAgent:
    """An agent whose model has no state: the same request gets the same response."""
    return LlmAgent(name=name, model=MeteredModel(PatternModel([*replies, (".*", f"{name} is done")])), **fields)


def counter(name: str, **fields: Any) -> LlmAgent:
    """An agent that calls a tool, and then answers."""
    call = {"parts": [{"call": "count", "args": {"key": name}}, {"call": "count", "args": {"key": f"{name}2"}}]}
    return talker(name, ("tool:", f"{name} has counted"), (".*", call), tools=[count], **fields)
