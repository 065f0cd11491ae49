"""Agents, tools, callbacks and a failing store for the trees of vectors.yaml.

They are in a module so that the agents' processes can import them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from actors import (
    Content,
    CustomAgent,
    Event,
    EventActions,
    FunctionTool,
    InvocationContext,
    LongRunningFunctionTool,
    Part,
    Tool,
    ToolContext,
    exit_loop,
)
from actors.interfaces.stores import ArtifactStore
from actors.messages.session import SessionKey


class SayingAgent(CustomAgent):
    """One event per text; the one with the index `esc` escalates."""

    say: Sequence[str]
    esc: int | None = None

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for index, text in enumerate(self.say):
            actions = EventActions(escalate=True if index == self.esc else None)
            yield Event(content=Content.of_text(text, role="model"), actions=actions)


class FailingAgent(CustomAgent):
    """Says "pre", then fails."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("pre", role="model"))
        raise RuntimeError("boom")


class SilentAgent(CustomAgent):
    """Yields no event and runs no child."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        nothing: list[Event] = []
        for event in nothing:
            yield event


def esc(tool_context: ToolContext) -> str:
    """Escalates."""
    tool_context.actions.escalate = True
    return "ok"


def foo(x: int) -> int:
    """Adds one."""
    return x + 1


def good() -> str:
    """Works."""
    return "g"


def bad() -> str:
    """Fails."""
    raise ValueError("kaput")


def skip(tool_context: ToolContext) -> str:
    """Needs no summary."""
    tool_context.actions.skip_summarization = True
    return "r"


def lro() -> None:
    """Is answered later."""


def lrp() -> dict[str, str]:
    """Is answered later, and says so."""
    return {"status": "pending"}


def route_s(tool_context: ToolContext) -> str:
    """Hands over to s."""
    tool_context.actions.transfer_to_agent = "s"
    return "routed"


def put(key: str, value: str, tool_context: ToolContext) -> str:
    """Writes state."""
    tool_context.state[key] = value
    return "ok"


TOOLS: Mapping[str, Callable[[], Tool]] = {
    "exit_loop": lambda: exit_loop,
    "esc": lambda: FunctionTool(esc),
    "foo": lambda: FunctionTool(foo),
    "good": lambda: FunctionTool(good),
    "bad": lambda: FunctionTool(bad),
    "skip": lambda: FunctionTool(skip),
    "lro": lambda: LongRunningFunctionTool(lro),
    "lrp": lambda: LongRunningFunctionTool(lrp),
    "route_s": lambda: FunctionTool(route_s),
    "put": lambda: FunctionTool(put),
    "fake_transfer": lambda: FunctionTool(good, name="transfer_to_agent"),
}
"""The mock tools by their names in the vectors."""


class ConstantCallback:
    """A callback of any kind that always gives the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *_: Any) -> Content:
        return Content.of_text(self.text, role="model")


class FailingArtifactStore(ArtifactStore):
    """Implements ArtifactStore; nothing can be saved in it."""

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        raise OSError("disk full")

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        return None

    def keys(self, key: SessionKey) -> list[str]:
        return []

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        return []

    def delete(self, key: SessionKey, filename: str) -> None:
        return None
