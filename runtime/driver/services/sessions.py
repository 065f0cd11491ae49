"""The sessions service: `rt.sessions` and `rt.aio.sessions` have the same methods."""

from __future__ import annotations

import uuid

import msgspec

from actors.errors import InvalidMessageError
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode_event
from actors.messages.event import Event, new_event_id, new_invocation_id, now_s
from actors.messages.json_types import JsonMapping
from actors.messages.session import Session, SessionKey
from actors.rules.checks.ids import checked_id, checked_key
from actors.rules.checks.state import without_temp
from runtime.driver.engine_client import EngineClient
from runtime.driver.user_message import to_state


class _Sessions:
    """The requests to the Session actor, as coroutines for the portal's loop."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_key(self._client.app_name, user_id, session_id)

    async def _create(self, user_id: str, session_id: str | None, state: JsonMapping | None) -> Session:
        key = self._key(user_id, session_id if session_id is not None else uuid.uuid4().hex)
        reply = await self._client.session.create_session(p.CreateSessionRequest(key=key, state=to_state(state)))
        return _session(reply.session)

    async def _get(self, key: SessionKey, num_recent_events: int | None, after_timestamp: float | None) -> Session | None:
        request = p.GetSessionRequest(key=key, num_recent_events=num_recent_events, after_timestamp=after_timestamp)
        reply = await self._client.session.get_session(request)
        return _session(reply.session) if reply.session is not None else None

    async def _list(self, user_id: str | None) -> list[Session]:
        user = checked_id("user id", user_id) if user_id is not None else None
        request = p.ListSessionsRequest(app=self._client.app_name, user=user)
        return [_session(info) for info in (await self._client.session.list_sessions(request)).sessions]

    async def _delete(self, key: SessionKey) -> None:
        await self._client.session.delete_session(p.DeleteSessionRequest(key=key))

    async def _rewind(self, key: SessionKey, invocation_id: str) -> None:
        await self._client.session.rewind(p.RewindRequest(key=key, invocation_id=checked_id("invocation id", invocation_id)))

    async def _append(self, key: SessionKey, event: Event) -> Event:
        if not isinstance(event, Event):
            raise TypeError(f"an Event can be appended, not a {type(event).__name__}")
        if event.partial:
            raise InvalidMessageError("a partial event is delivered while its turn runs, and never stored")
        # Decoding checks the types, which constructors do not.
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
        seq = await self._client.session.append_event(p.AppendEventRequest(key=key, event=encode_event(event)))
        return msgspec.structs.replace(event, seq=seq)


class SessionsService(_Sessions):
    """Sessions of the app: `rt.sessions`."""

    def create(self, user_id: str, session_id: str | None = None, state: JsonMapping | None = None) -> Session:
        """Create a session.

        Args:
            session_id: None chooses one.
            state: its first state, by prefixed keys.

        Raises:
            SessionExistsError: the id is taken.
            InvalidIdError, NotEncodableError, TooLargeError: an id or the state cannot be stored as it is.
        """
        return self._client.run(self._create(user_id, session_id, state))

    def get(
        self, user_id: str, session_id: str, num_recent_events: int | None = None, after_timestamp: float | None = None
    ) -> Session | None:
        """Read a session; None when there is none.

        Args:
            num_recent_events: read only so many of the newest events; 0 for none.
            after_timestamp: read only events not older than this, in seconds since the epoch.
        """
        return self._client.run(self._get(self._key(user_id, session_id), num_recent_events, after_timestamp))

    def list(self, user_id: str | None = None) -> list[Session]:
        """List the sessions of a user, or of all users, without events; the one written last comes first."""
        return self._client.run(self._list(user_id))

    def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session; a missing one is no error. Raises SessionBusyError while a turn runs."""
        self._client.run(self._delete(self._key(user_id, session_id)))

    def rewind(self, user_id: str, session_id: str, invocation_id: str) -> None:
        """Take a session back to before a turn. Raises InvocationNotFoundError, SessionNotFoundError, SessionBusyError."""
        self._client.run(self._rewind(self._key(user_id, session_id), invocation_id))

    def append_event(self, user_id: str, session_id: str, event: Event) -> Event:
        """Append an event that belongs to no turn, such as one of an imported conversation, and return it as stored.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionBusyError: a turn runs.
            InvalidMessageError: the event is partial.
            InvalidIdError, NotEncodableError, TooLargeError: it cannot be stored as it is.
        """
        return self._client.run(self._append(self._key(user_id, session_id), event))


class AsyncSessionsService(_Sessions):
    """Sessions of the app, for callers on an event loop: `rt.aio.sessions`. See SessionsService."""

    async def create(self, user_id: str, session_id: str | None = None, state: JsonMapping | None = None) -> Session:
        """Create a session."""
        return await self._client.run_async(self._create(user_id, session_id, state))

    async def get(
        self, user_id: str, session_id: str, num_recent_events: int | None = None, after_timestamp: float | None = None
    ) -> Session | None:
        """Read a session; None when there is none."""
        return await self._client.run_async(self._get(self._key(user_id, session_id), num_recent_events, after_timestamp))

    async def list(self, user_id: str | None = None) -> list[Session]:
        """List the sessions of a user, or of all users."""
        return await self._client.run_async(self._list(user_id))

    async def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session."""
        await self._client.run_async(self._delete(self._key(user_id, session_id)))

    async def rewind(self, user_id: str, session_id: str, invocation_id: str) -> None:
        """Take a session back to before a turn."""
        await self._client.run_async(self._rewind(self._key(user_id, session_id), invocation_id))

    async def append_event(self, user_id: str, session_id: str, event: Event) -> Event:
        """Append an event that belongs to no turn."""
        return await self._client.run_async(self._append(self._key(user_id, session_id), event))


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
