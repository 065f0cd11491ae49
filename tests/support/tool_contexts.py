"""Contexts for tools that run without an actor."""

from __future__ import annotations

from actors import Content, Event, MemoryEntry, RunConfig, ToolContext
from actors.definitions.tools.offload import in_process
from actors.messages.session import SessionKey
from actors.refs.access import SessionArtifacts
from runtime.stores.artifacts import FsspecArtifactStore


class EchoingMemory:
    """Implements MemoryAccess: every query finds one entry with the query as its text."""

    async def search(self, query: str) -> list[MemoryEntry]:
        """One entry, the query."""
        return [MemoryEntry(session_id="s0", author="user", timestamp=0.0, text=query)]


class EmptyLog:
    """Implements LogAccess: the log of a session without events."""

    key = SessionKey("app", "ada", "s1")

    async def read(self) -> list[Event]:
        """No events."""
        return []

    def read_in_thread(self) -> list[Event]:
        """No events."""
        return []


def tool_context() -> ToolContext:
    """The context of the call `c1` of the agent `writer`; the state has one key, `known`."""
    return ToolContext(
        function_call_id="c1",
        offload=in_process,
        memory=EchoingMemory(),
        artifacts=SessionArtifacts(FsspecArtifactStore("memory://unit"), EmptyLog.key),
        agent_name="writer",
        invocation_id="e-1",
        log=EmptyLog(),
        branch=None,
        run_config=RunConfig(),
        user_content=Content.of_text("hi"),
        state={"known": 1},
    )
