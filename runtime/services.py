"""Sessions and artifacts, for the driver: the same names sync (`rt.sessions`) and async (`rt.aio.sessions`)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from actors.errors import InvalidMessageError, NotEncodableError
from actors.flows import Task
from actors.interfaces.stores import ArtifactStore
from actors.messages import protocol as p
from actors.messages.content import Part
from actors.messages.event import Event, new_event_id, new_invocation_id, now_s
from actors.messages.session import Session, SessionKey
from actors.messages.wire import decode_event, encode_event
from actors.rules.ids import checked_artifact_name, checked_id, checked_key
from actors.rules.state import without_temp
from runtime.deployment import open_artifact_store
from runtime.memory import AsyncMemoryService

if TYPE_CHECKING:
    from runtime.driver import Runtime, RuntimeStatistics


class _Sessions:
    """The requests to the Session actor, as coroutines for the driver's loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_key(self._runtime.app_name, user_id, session_id)

    async def _create(self, user_id: str, session_id: str | None, state: Mapping[str, Any] | None) -> Session:
        key = self._key(user_id, session_id if session_id is not None else uuid.uuid4().hex)
        reply = await self._runtime.session.create_session(p.CreateSessionRequest(key=key, state=as_mapping(state)))
        return _session(reply.session)

    async def _get(self, key: SessionKey, num_recent_events: int | None, after_timestamp: float | None) -> Session | None:
        request = p.GetSessionRequest(key=key, num_recent_events=num_recent_events, after_timestamp=after_timestamp)
        reply = await self._runtime.session.get_session(request)
        return _session(reply.session) if reply.session is not None else None

    async def _list(self, user_id: str | None) -> list[Session]:
        user = checked_id("user id", user_id) if user_id is not None else None
        request = p.ListSessionsRequest(app=self._runtime.app_name, user=user)
        return [_session(info) for info in (await self._runtime.session.list_sessions(request)).sessions]

    async def _delete(self, key: SessionKey) -> None:
        await self._runtime.session.delete_session(p.DeleteSessionRequest(key=key))

    async def _rewind(self, key: SessionKey, invocation_id: str) -> None:
        await self._runtime.session.rewind(p.RewindRequest(key=key, invocation_id=checked_id("invocation id", invocation_id)))

    async def _append(self, key: SessionKey, event: Event) -> Event:
        if not isinstance(event, Event):
            raise TypeError(f"an Event can be appended, not a {type(event).__name__}")
        if event.partial:
            raise InvalidMessageError("a partial event is delivered while its turn runs, and never stored")
        # As it will be read: constructors check no types.
        event = decode_event(encode_event(event), 0)
        state_delta = without_temp(event.actions.state_delta)
        event = msgspec.structs.replace(
            event,
            actions=msgspec.structs.replace(event.actions, state_delta=state_delta),
            id=event.id or new_event_id(),
            invocation_id=event.invocation_id or new_invocation_id(),
            timestamp=event.timestamp or now_s(),
            seq=0,
        )
        seq = await self._runtime.session.append_event(p.AppendEventRequest(key=key, event=encode_event(event)))
        return msgspec.structs.replace(event, seq=seq)


class SessionsService(_Sessions):
    """Sessions of the app: `rt.sessions`."""

    def create(self, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None) -> Session:
        """Make a session.

        Args:
            session_id: None makes one up.
            state: what it starts with, by prefixed keys.

        Raises:
            SessionExistsError: the id is taken.
            InvalidIdError, NotEncodableError, TooLargeError: an id or the state cannot be stored as it is.
        """
        return self._runtime.call(self._create(user_id, session_id, state))

    def get(
        self, user_id: str, session_id: str, num_recent_events: int | None = None, after_timestamp: float | None = None
    ) -> Session | None:
        """Read a session; None when there is none.

        Args:
            num_recent_events: only so many, the newest; 0 for none.
            after_timestamp: only events not older than this, in seconds since the epoch.
        """
        return self._runtime.call(self._get(self._key(user_id, session_id), num_recent_events, after_timestamp))

    def list(self, user_id: str | None = None) -> list[Session]:
        """The sessions of a user, or of all users; without events, the one written last first."""
        return self._runtime.call(self._list(user_id))

    def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session; a missing one is no error. Raises SessionBusyError while a turn runs."""
        self._runtime.call(self._delete(self._key(user_id, session_id)))

    def rewind(self, user_id: str, session_id: str, invocation_id: str) -> None:
        """See the session as before a turn. Raises InvocationNotFoundError, SessionNotFoundError, SessionBusyError."""
        self._runtime.call(self._rewind(self._key(user_id, session_id), invocation_id))

    def append_event(self, user_id: str, session_id: str, event: Event) -> Event:
        """Add an event that belongs to no turn, such as one of an imported conversation, and return it as stored.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionBusyError: a turn runs.
            InvalidMessageError: the event is partial.
            InvalidIdError, NotEncodableError, TooLargeError: it cannot be stored as it is.
        """
        return self._runtime.call(self._append(self._key(user_id, session_id), event))


class AsyncSessionsService(_Sessions):
    """Sessions of the app, for callers on an event loop: `rt.aio.sessions`. See SessionsService."""

    async def create(self, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None) -> Session:
        """Make a session."""
        return await self._runtime.call_async(self._create(user_id, session_id, state))

    async def get(
        self, user_id: str, session_id: str, num_recent_events: int | None = None, after_timestamp: float | None = None
    ) -> Session | None:
        """Read a session; None when there is none."""
        return await self._runtime.call_async(self._get(self._key(user_id, session_id), num_recent_events, after_timestamp))

    async def list(self, user_id: str | None = None) -> list[Session]:
        """The sessions of a user, or of all users."""
        return await self._runtime.call_async(self._list(user_id))

    async def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session."""
        await self._runtime.call_async(self._delete(self._key(user_id, session_id)))

    async def rewind(self, user_id: str, session_id: str, invocation_id: str) -> None:
        """See the session as before a turn."""
        await self._runtime.call_async(self._rewind(self._key(user_id, session_id), invocation_id))

    async def append_event(self, user_id: str, session_id: str, event: Event) -> Event:
        """Add an event that belongs to no turn."""
        return await self._runtime.call_async(self._append(self._key(user_id, session_id), event))


def as_mapping(state: Mapping[str, Any] | None) -> dict[str, Any]:
    """State, or changes of it, as a user has given it.

    Raises:
        NotEncodableError: it is no mapping.
    """
    if state is not None and not isinstance(state, Mapping):
        raise NotEncodableError(type(state).__name__, "state is a mapping of keys")
    return dict(state or {})


def _session(info: p.SessionInfo | None) -> Session:
    assert info is not None
    return Session(
        app_name=info.key.app,
        user_id=info.key.user,
        id=info.key.session,
        state=info.state,
        events=[decode_event(stored.raw, stored.seq) for stored in info.events],
        last_update_time=info.updated_s,
    )


class ArtifactsService:
    """Artifacts of the app's sessions: `rt.artifacts`. Names that begin with `user:` are shared by a user's sessions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @cached_property
    def _store(self) -> ArtifactStore:
        return open_artifact_store(self._runtime.artifact_store)

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_key(self._runtime.app_name, user_id, session_id)

    def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        return self._store.save(self._key(user_id, session_id), checked_artifact_name(filename), part)

    def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none."""
        return self._store.load(self._key(user_id, session_id), checked_artifact_name(filename), version)

    def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """The names of all artifacts that the session sees, sorted."""
        return self._store.keys(self._key(user_id, session_id))

    def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """All versions of an artifact, oldest first."""
        return self._store.versions(self._key(user_id, session_id), checked_artifact_name(filename))

    def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Remove an artifact with all its versions; a missing one is no error."""
        self._store.delete(self._key(user_id, session_id), checked_artifact_name(filename))


class AsyncArtifactsService:
    """Artifacts for callers on an event loop: `rt.aio.artifacts`. See ArtifactsService."""

    def __init__(self, sync: ArtifactsService) -> None:
        self._sync = sync

    async def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0."""
        return await asyncio.to_thread(self._sync.save, user_id, session_id, filename, part)

    async def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none."""
        return await asyncio.to_thread(self._sync.load, user_id, session_id, filename, version)

    async def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """The names of all artifacts that the session sees, sorted."""
        return await asyncio.to_thread(self._sync.list_keys, user_id, session_id)

    async def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """All versions of an artifact, oldest first."""
        return await asyncio.to_thread(self._sync.list_versions, user_id, session_id, filename)

    async def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Remove an artifact with all its versions."""
        await asyncio.to_thread(self._sync.delete, user_id, session_id, filename)


class AsyncServices:
    """What of a Runtime waits, for callers on an event loop: `rt.aio`.

    `rt.run`, `rt.run_flow` and `rt.attach` never wait and are for both.

    Attributes:
        sessions, artifacts, memory: the services.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.sessions = AsyncSessionsService(runtime)
        self.artifacts = AsyncArtifactsService(runtime.artifacts)
        self.memory = AsyncMemoryService(runtime)

    async def run_task(self, objective: str | Task, **options: Any) -> Any:
        """Have one task done and wait for its result: see Runtime.run_task, which takes the same."""
        return await asyncio.to_thread(self._runtime.run_task, objective, **options)

    async def statistics(self) -> RuntimeStatistics:
        """What lives, and what it has done."""
        return await self._runtime.call_async(self._runtime.read_statistics())

    async def shutdown(self) -> None:
        """Stop the deployment for good: see Runtime.shutdown."""
        await asyncio.to_thread(self._runtime.shutdown)
