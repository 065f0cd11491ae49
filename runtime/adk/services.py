"""ADK's services over raygrove's: artifacts, memory and the session of one run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Never

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from actors.errors import DefinitionError
from runtime.adk.contents import genai_content, genai_part, own_part


def _refuse(what: str, instead: str) -> Never:
    raise DefinitionError(f"{what} of google-adk is not carried over: {instead}")


class Artifacts(BaseArtifactService):  # type: ignore[misc]
    """The artifacts of a run's session, and those that the user's sessions share (`user:`).

    Args:
        ours: raygrove's context of the run.
    """

    def __init__(self, ours: Any) -> None:
        self._ours = ours

    def _check(self, session_id: str | None) -> None:
        if session_id is not None and session_id != self._ours.session_id:
            _refuse("an artifact of another session", "use a name that begins with `user:` for what sessions share")

    async def save_artifact(
        self, *, filename: str, artifact: Any, session_id: str | None = None, custom_metadata: Any = None, **_: Any
    ) -> int:
        """Store an artifact, and return its version from 0."""
        self._check(session_id)
        part = own_part(artifact)
        if hasattr(self._ours, "save_artifact"):
            return int(await self._ours.save_artifact(filename, part))
        return int(await self._ours.artifacts.save(filename, part))

    async def load_artifact(
        self, *, filename: str, session_id: str | None = None, version: int | None = None, **_: Any
    ) -> Any | None:
        """The artifact in that version, by default the latest; None if there is none."""
        self._check(session_id)
        if hasattr(self._ours, "load_artifact"):
            part = await self._ours.load_artifact(filename, version)
        else:
            part = await self._ours.artifacts.load(filename, version)
        return genai_part(part) if part is not None else None

    async def list_artifact_keys(self, *, session_id: str | None = None, **_: Any) -> list[str]:
        """The names of all artifacts that the session sees."""
        self._check(session_id)
        if hasattr(self._ours, "list_artifacts"):
            return list(await self._ours.list_artifacts())
        return list(await self._ours.artifacts.keys())

    async def delete_artifact(self, **_: Any) -> None:
        """Refused: agents delete no artifacts."""
        _refuse("delete_artifact", "use Runtime.artifacts in the program")

    async def list_versions(self, **_: Any) -> list[int]:
        """Refused: agents know the versions that they have saved."""
        _refuse("list_versions", "use Runtime.artifacts in the program")

    async def list_artifact_versions(self, **_: Any) -> list[Any]:
        """Refused: raygrove's artifacts have no metadata beside their version."""
        _refuse("list_artifact_versions", "use Runtime.artifacts in the program")

    async def get_artifact_version(self, **_: Any) -> Any | None:
        """None: raygrove's artifacts have no address and no metadata of their own."""
        return None


class Memory(BaseMemoryService):  # type: ignore[misc]
    """The memory of a run's user.

    Args:
        ours: raygrove's context of the run.
    """

    def __init__(self, ours: Any) -> None:
        self._ours = ours

    async def add_session_to_memory(self, session: Session) -> None:
        """Refused: a program decides which sessions are remembered."""
        _refuse("add_session_to_memory", "call Runtime.memory in the program when the conversation is over")

    async def search_memory(self, *, query: str, **_: Any) -> SearchMemoryResponse:
        """What is remembered of the user and fits the query."""
        search = self._ours.search_memory if hasattr(self._ours, "search_memory") else self._ours.memory.search
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    content=genai_content(entry.content),
                    author=entry.author,
                    timestamp=datetime.fromtimestamp(entry.timestamp, UTC).isoformat(),
                )
                for entry in await search(query)
            ]
        )


class Sessions(BaseSessionService):  # type: ignore[misc]
    """The session of a run, which can be read.

    Attributes:
        session: the session.
        run: the run of a BaseAgent to which it belongs; None for the contexts of callbacks and tools.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.run: Any = None

    async def get_session(self, *, session_id: str, **_: Any) -> Session | None:
        """The run's own session."""
        if session_id != self.session.id:
            _refuse("another session", "an agent reads its own session only")
        return self.session

    async def create_session(self, **_: Any) -> Session:
        """Refused."""
        _refuse("create_session", "use Runtime.sessions in the program")

    async def list_sessions(self, **_: Any) -> Any:
        """Refused."""
        _refuse("list_sessions", "use Runtime.sessions in the program")

    async def delete_session(self, **_: Any) -> None:
        """Refused."""
        _refuse("delete_session", "use Runtime.sessions in the program")

    async def append_event(self, session: Session, event: Any) -> Any:
        """Refused: events of an agent are those that it yields."""
        _refuse("append_event", "write into the context's state, or yield the event")
