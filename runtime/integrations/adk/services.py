"""What stands for services of google-adk in a run: artifacts, memory, the session, and credentials of users.

A credential is asked for and taken by ADK's own code: it checks the state of OAuth, keeps its secrets out of what users see, and
exchanges what a user gives for a token.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any, Never

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from actors.definitions.tools.state import State
from actors.errors import NotCarriedOverError
from actors.messages.content import Content
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping, JsonObject
from runtime.integrations.adk.contents import genai_content, genai_part, own_part


def refuse(what: str, instead: str) -> Never:
    """Refuse what user code asks for. Raises NotCarriedOverError, which fails the turn."""
    raise NotCarriedOverError(f"{what} of google-adk is not carried over: {instead}")


class Artifacts(BaseArtifactService):  # type: ignore[misc]
    """The artifacts of a run's session, and those that the user's sessions share (`user:`).

    Args:
        ours: raygrove's context of the run.
    """

    def __init__(self, ours: Any) -> None:
        self._ours = ours

    def _check(self, session_id: str | None) -> None:
        if session_id is not None and session_id != self._ours.session_id:
            refuse("an artifact of another session", "use a name that begins with `user:` for what sessions share")

    async def save_artifact(
        self, *, filename: str, artifact: Any, session_id: str | None = None, custom_metadata: Any = None, **_: Any
    ) -> int:
        """Store an artifact, and return its version from 0."""
        self._check(session_id)
        if custom_metadata:
            refuse("custom_metadata of an artifact", "write it into the state, or save it as an artifact of its own")
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
        refuse("delete_artifact", "use Runtime.artifacts in the program")

    async def list_versions(self, **_: Any) -> list[int]:
        """Refused: agents know the versions that they have saved."""
        refuse("list_versions", "use Runtime.artifacts in the program")

    async def list_artifact_versions(self, **_: Any) -> list[Any]:
        """Refused: raygrove's artifacts have no metadata beside their version."""
        refuse("list_artifact_versions", "use Runtime.artifacts in the program")

    async def get_artifact_version(
        self, *, filename: str, session_id: str | None = None, version: int | None = None, **_: Any
    ) -> ArtifactVersion | None:
        """Describe one version: its address, and the type of its data. Its time is 0: raygrove keeps none."""
        if version is None:
            refuse("get_artifact_version without a version", "give the version that save_artifact has returned")
        part = await self.load_artifact(filename=filename, session_id=session_id, version=version)
        if part is None:
            return None
        address = f"artifact://{self._ours.session_key.app}/{self._ours.user_id}/{self._ours.session_id}/{filename}/{version}"
        mime_type = (
            part.inline_data.mime_type if part.inline_data is not None else "text/plain" if part.text is not None else None
        )
        return ArtifactVersion(version=version, canonical_uri=address, create_time=0, mime_type=mime_type)


_WHOLE_SESSIONS = "call add_session_to_memory, which remembers what was said in the session so far"


class RunMemory(BaseMemoryService):  # type: ignore[misc]
    """The memory of a run's user.

    Args:
        ours: raygrove's context of the run.
    """

    def __init__(self, ours: Any) -> None:
        self._ours = ours

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember what was said in the run's session so far, in place of what was remembered of it before."""
        if session.id != self._ours.session_id:
            refuse("add_session_to_memory for another session", "call Runtime.memory.add_session in the program")
        add = self._ours.add_session_to_memory if hasattr(self._ours, "add_session_to_memory") else self._ours.memory.add_session
        await add()

    async def add_events_to_memory(self, **_: Any) -> None:
        """Refused: memory has whole sessions."""
        refuse("add_events_to_memory", _WHOLE_SESSIONS)

    async def add_memory(self, **_: Any) -> None:
        """Refused: memory has whole sessions."""
        refuse("add_memory", _WHOLE_SESSIONS)

    async def delete_memory(self, **_: Any) -> None:
        """Refused: memory has whole sessions."""
        refuse("delete_memory", "use Runtime.memory.delete_session in the program")

    async def search_memory(self, *, query: str, **_: Any) -> SearchMemoryResponse:
        """The entries that are remembered of the user and fit the query."""
        search = self._ours.search_memory if hasattr(self._ours, "search_memory") else self._ours.memory.search
        return SearchMemoryResponse(
            memories=[
                MemoryEntry(
                    content=genai_content(Content.of_text(entry.text, role=USER if entry.author == USER else "model")),
                    author=entry.author,
                    timestamp=datetime.fromtimestamp(entry.timestamp, UTC).isoformat(),
                )
                for entry in await search(query)
            ]
        )


class Sessions(BaseSessionService):  # type: ignore[misc]
    """The session of a run, which can be read as it is stored.

    Args:
        session: the session as the run has it, with what it has written.
        ours: raygrove's context of the run.

    Attributes:
        run: the run of a BaseAgent to which it belongs; None for the contexts of callbacks and tools.
    """

    def __init__(self, session: Session, ours: Any) -> None:
        self._session = session
        self._ours = ours
        self.run: Any = None

    async def get_session(self, *, session_id: str, config: Any = None, **_: Any) -> Session | None:
        """The run's own session as it is stored; a copy, as in ADK."""
        if session_id != self._session.id:
            refuse("another session", "an agent reads its own session only")
        session = Session(id=session_id, app_name=self._session.app_name, user_id=self._session.user_id)
        state = self._ours.state
        session.state = copy.deepcopy(dict(state.stored if isinstance(state, State) else state))
        if "events" not in vars(self._session):
            # Async code cannot wait for them when it looks at them.
            await self._ours.session.read_events()
        session.events = _chosen(list(self._session.events), config)
        return session

    async def create_session(self, **_: Any) -> Session:
        """Refused."""
        refuse("create_session", "use Runtime.sessions in the program")

    async def list_sessions(self, **_: Any) -> Any:
        """Refused."""
        refuse("list_sessions", "use Runtime.sessions in the program")

    async def delete_session(self, **_: Any) -> None:
        """Refused."""
        refuse("delete_session", "use Runtime.sessions in the program")

    async def append_event(self, session: Session, event: Any) -> Any:
        """Refused: events of an agent are those that it yields."""
        refuse("append_event", "write into the context's state, or yield the event")


def _chosen(events: list[Any], config: Any) -> list[Any]:
    """The events that a GetSessionConfig asks for; None asks for all."""
    if config is None:
        return events
    if config.num_recent_events is not None:
        events = events[-config.num_recent_events :] if config.num_recent_events else []
    return [event for event in events if event.timestamp >= (config.after_timestamp or 0)]


ASKS_CREDENTIAL = "authConfig"
"""The key of a question that asks for a credential: ADK's AuthConfig."""


def question_of(config: Any, asking: str) -> JsonObject:
    """The question for a credential.

    Args:
        config: the AuthConfig that ADK has made for it.
        asking: names the tool or the toolset.
    """
    return {
        "message": f"{asking} asks for a credential",
        ASKS_CREDENTIAL: config.model_dump(mode="json", exclude_none=True, by_alias=True),
    }


async def credential_state(asked: JsonMapping, answer: JsonObject, call_id: str) -> JsonObject:
    """The changes of state in which ADK's code finds the credential that a user has given; none for one that it does not take.

    Args:
        asked: the question.
        answer: an AuthConfig or an AuthCredential; or one value, such as a key, under a key of its own.
        call_id: of the call that asks.
    """
    # It brings fastapi and clients of OAuth: a quarter of what the adapter takes to import.
    from google.adk.auth._auth_resume import store_auth_response
    from google.adk.auth.auth_tool import AuthConfig

    config = AuthConfig.model_validate(asked[ASKS_CREDENTIAL])
    found: dict[str, Any] = {}
    given: Any = answer
    if len(answer) == 1 and (key := next(iter(answer))) in ("result", "response"):
        given = answer[key]
    await store_auth_response(requested=config, response=given, state=found, interrupt_id=call_id)
    return {key: _plain(value) for key, value in found.items() if value is not None}


def stored_credential(value: Any) -> Any:
    """A credential that ADK's own code writes into the state, as plain data; any other value as it is."""
    return _plain(value) if type(value).__module__ == "google.adk.auth.auth_credential" else value


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value
