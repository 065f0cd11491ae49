"""Sessions, `rt.sessions` and `rt.aio.sessions`, and their artifacts, `rt.artifacts` and `rt.aio.artifacts`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import timedelta

import msgspec

from actors.errors import InvalidMessageError, RequestError, SessionNotFoundError
from actors.errors.hints import explains_all_wrong_calls
from actors.messages import protocol as p
from actors.messages.content import Part
from actors.messages.event import Event, decode_event, encode_event, new_event_id, new_invocation_id, now_s
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.base import StoredEvent
from actors.messages.session import Session, SessionKey, SessionPlace
from actors.rules.checks.ids import checked_artifact_name, checked_id, checked_key, checked_known_id, checked_known_key
from actors.rules.checks.state import without_temp
from runtime.driver.arguments import checked_age, checked_number, checked_time, to_state
from runtime.driver.engine_client import EngineClient
from runtime.driver.history import fork_session, rewind
from runtime.driver.turns.turn import Turn
from runtime.driver.waits import M, RuntimeService, in_thread, waits
from runtime.engine.retention import ArchivedEvents, PrunedSessions, archive_old_events, count_old_sessions, prune_sessions

Follow = Callable[[SessionKey, int], Turn]
"""Follows a session after a position."""


@explains_all_wrong_calls
class SessionsService(RuntimeService[M]):
    """Sessions of the app."""

    def __init__(self, client: EngineClient, mode: type[M], follow: Follow) -> None:
        super().__init__(client, mode)
        self._follow = follow

    @waits
    async def create(self, user_id: str, session_id: str | None = None, state: JsonMapping | None = None) -> Session:
        """Create a session.

        Args:
            session_id: None chooses one.
            state: its first state, by prefixed keys.

        Raises:
            SessionExistsError: the id is taken.
            InvalidIdError, NotEncodableError, TooLargeError: an id or the state cannot be stored as it is.
        """
        key = checked_key(self._client.app_name, user_id, session_id if session_id is not None else uuid.uuid4().hex)
        reply = await self._client.session.ask(p.CreateSessionRequest(key=key, state=to_state(state)))
        return _session(reply.session)

    @waits
    async def get(
        self, user_id: str, session_id: str, num_recent_events: int | None = None, after_timestamp: float | None = None
    ) -> Session | None:
        """Read a session; None when there is none.

        Args:
            num_recent_events: read only so many of the newest events; 0 for none.
            after_timestamp: read only events not older than this, in seconds since the epoch.
        """
        key = self._key(user_id, session_id)
        if num_recent_events is not None:
            num_recent_events = checked_number("num_recent_events", num_recent_events)
        if after_timestamp is not None:
            after_timestamp = checked_time("after_timestamp", after_timestamp)
        request = p.GetSessionRequest(key=key, num_recent_events=num_recent_events, after_timestamp=after_timestamp)
        if num_recent_events is None:
            return await self._get_by_pages(msgspec.structs.replace(request, after_seq=0))
        reply = await self._client.session.ask(request)
        return _session(reply.session) if reply.session is not None else None

    @waits
    async def events(
        self,
        user_id: str,
        session_id: str,
        *,
        after_seq: int = 0,
        before_seq: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Sequence[Event]:
        """Read a page of a session's events.

        Args:
            after_seq: only events with a higher `seq`.
            before_seq: only events with a lower `seq`; None is no limit.
            limit: at most so many.
            newest_first: begin at the newest event and go back; the next page is that with `before_seq` of the last event.

        Raises:
            SessionNotFoundError: there is no such session.
            RequestError, InvalidIdError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        key = self._key(user_id, session_id)
        after_seq, left = checked_number("after_seq", after_seq), checked_number("limit", limit)
        if before_seq is not None:
            before_seq = checked_number("before_seq", before_seq)
        found: list[p.StoredEvent] = []
        while left > len(found):
            request = p.ReadLog(
                key=key, after_seq=after_seq, before_seq=before_seq, limit=left - len(found), newest_first=newest_first
            )
            part = await self._client.session.ask(request)
            found += part.events
            if not part.more:
                break
            if newest_first:
                before_seq = found[-1].seq
            else:
                after_seq = found[-1].seq
        return [decode_event(stored.raw, stored.seq) for stored in found]

    @waits
    async def list(self, user_id: str | None = None, *, limit: int | None = None, before: Session | None = None) -> list[Session]:
        """List the sessions of a user, or of all users, without events; the one written last comes first.

        Args:
            user_id: only sessions of this user.
            limit: at most so many. By default all: of an app that has a hundred thousand, pages are soon there.
            before: the last session of an earlier list, whose next page is wanted. A session that is written between two pages
                moves to the front, and no other one is missed or comes twice.

        Raises:
            InvalidIdError, RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        user = checked_known_id("user id", user_id) if user_id is not None else None
        limit = checked_number("limit", limit) if limit is not None else None
        if before is not None and not isinstance(before, Session):
            raise RequestError(f"before must be a Session of an earlier list, not {type(before).__name__}")
        place = self._place(before) if before is not None else None
        request = p.ListSessionsRequest(app=self._client.app_name, user=user, limit=limit, before=place)
        return [_session(info) for info in (await self._client.session.ask(request)).sessions]

    @waits
    async def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session with its artifacts, and its background runs with theirs; a missing one is no error.

        State of the user and of the app, artifacts that the user's sessions share, and memory stay: see `rt.users.delete`.

        Raises:
            SessionBusyError: a turn runs.
            StoreError: a store failed. When the session is deleted and its artifacts are not, a repetition deletes them.
        """
        key, artifacts = self._key(user_id, session_id), self._client.artifacts
        await self._client.session.ask(p.DeleteSessionRequest(key=key))
        await asyncio.to_thread(artifacts.delete_session, key)
        # Those of its runs are noted, as those of sessions that are pruned.
        await prune_sessions(self._client.session.of(key).shards, artifacts, key.app, key.user)

    @waits
    async def prune(self, older_than: timedelta | float, *, user_id: str | None = None, dry_run: bool = False) -> PrunedSessions:
        """Delete all sessions to which nothing was written for long, each as `delete` does.

        A session stays while a turn of it is open or paused, or waits in line. Others may talk meanwhile: sessions go in small
        batches. Interrupted at any point, it has deleted some of them, and a repetition goes on.

        Args:
            older_than: the time since the session's last event, or since it was created if that was later, above zero: a
                timedelta, or seconds.
            user_id: only sessions of this user.
            dry_run: only count them; artifacts are not counted then.

        Raises:
            InvalidIdError, RequestError: an argument is wrong.
            StoreError: a store failed, or a store of your own has no methods for it.
        """
        before_s = now_s() - checked_age("older_than", older_than)
        user = checked_known_id("user id", user_id) if user_id is not None else None
        engine, app = self._client.engine, self._client.app_name
        if dry_run:
            return await count_old_sessions(engine, app, user, before_s)
        return await prune_sessions(engine.session.shards, self._client.artifacts, app, user, before_s)

    @waits
    async def archive(
        self, older_than: timedelta | float, *, user_id: str | None = None, dry_run: bool = False
    ) -> ArchivedEvents:
        """Move old events of long sessions into the store's archive, compressed. They are read as before, also by agents.

        The newest 128 events of a session stay where they are, and so does what comes after an event that is newer, or after the
        begin of a turn that is open or paused. Others may talk meanwhile. Interrupted at any point, it has archived some of them,
        and a repetition goes on.

        Args:
            older_than: the time since the event, above zero: a timedelta, or seconds.
            user_id: only sessions of this user.
            dry_run: only count them.

        Raises:
            InvalidIdError, RequestError: an argument is wrong.
            StoreError: the store failed, or a store of your own has no archive.
        """
        before_s = now_s() - checked_age("older_than", older_than)
        user = checked_known_id("user id", user_id) if user_id is not None else None
        return await archive_old_events(self._client.engine, self._client.app_name, user, before_s, dry_run=dry_run)

    @waits
    async def rewind(self, user_id: str, session_id: str, invocation_id: str) -> None:
        """Take a session back to before a turn, with its artifacts.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            SessionBusyError: a turn of the session runs.
            ArtifactError: the session is as it was before the turn, and an artifact could not be brought back.
        """
        turn = checked_known_id("invocation id", invocation_id)
        await rewind(self._client, self._key(user_id, session_id), turn)

    @waits
    async def fork(self, user_id: str, session_id: str, invocation_id: str, fork_id: str | None = None) -> Session:
        """Make a new session that has all of a session up to the end of a turn: events, state, turns and artifacts.

        Args:
            fork_id: of the new session; None chooses one.

        Returns:
            The new session, without its events.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            SessionBusyError: a turn of the session runs.
            SessionExistsError, InvalidIdError: `fork_id` is taken, or no id.
            RequestError: another turn was paused at the end of the turn, and has gone on since; or there is too much.
        """
        key, turn = self._key(user_id, session_id), checked_known_id("invocation id", invocation_id)
        session = checked_id("session id", fork_id) if fork_id is not None else uuid.uuid4().hex
        fork = await fork_session(self._client, key, turn, session)
        found = (await self._client.session.ask(p.GetSessionRequest(key=fork, num_recent_events=0))).session
        if found is None:
            raise SessionNotFoundError(fork.app, fork.user, fork.session)
        return _session(found)

    @waits
    async def append_event(self, user_id: str, session_id: str, event: Event) -> Event:
        """Append an event that belongs to no turn, such as one of an imported conversation, and return it as stored.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionBusyError: a turn runs.
            InvalidMessageError: the event is partial.
            InvalidIdError, NotEncodableError, TooLargeError: it cannot be stored as it is.
        """
        key = self._key(user_id, session_id)
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

    def tail(self, user_id: str, session_id: str, *, after_seq: int = 0, partials: bool = False) -> SessionTail:
        """Follow a session over all its turns: its events after `after_seq`, and all that come.

        Args:
            after_seq: give only events with a higher `seq`; 0 gives the session from its first event.
            partials: give partial events as well.

        Returns:
            An iterator, sync and async. Iterating it raises SessionNotFoundError when there is no such session.

        Raises:
            InvalidIdError, RequestError: an argument is wrong.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        key = self._key(user_id, session_id)
        return SessionTail(self._follow(key, checked_number("after_seq", after_seq)), partials=partials)

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_known_key(self._client.app_name, user_id, session_id)

    def _place(self, session: Session) -> SessionPlace:
        """Where a session stands in a list."""
        key = self._key(session.user_id, session.id)
        return SessionPlace(checked_time("last_update_time", session.last_update_time), key.user, key.session)

    async def _get_by_pages(self, first: p.GetSessionRequest) -> Session | None:
        """The whole session: in one reply, a long log would be in memory at once in the Session actor and in the message."""
        request, events, generation = first, list[p.StoredEvent](), ""
        while (page := (await self._client.session.ask(request)).session) is not None:
            if page.generation != generation:
                if generation:
                    # It was rewound between two pages: the events of the earlier ones may not be visible any more.
                    request, events, generation = first, [], ""
                    continue
                generation = page.generation
            events += page.events
            if not page.more:
                return _session(msgspec.structs.replace(page, events=events))
            request = msgspec.structs.replace(first, after_seq=page.events[-1].seq)
        return None


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


class SessionTail:
    """The events of a session from one on, and all that follow: `for event in tail` or `async for event in tail`.

    Users' messages are among them, and with `partials` what agents stream. The iteration goes on from turn to turn, and when
    actors are lost, until it is left, or `close` is called. It ends with SessionNotFoundError when the session is deleted, and
    with RuntimeClosedError when the Runtime is closed. Leaving it cancels no turn.

    Args:
        partials: whether partial events are given, too.
    """

    def __init__(self, events: Turn, *, partials: bool) -> None:
        self._events = events
        self._partials = partials

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            if self._partials or not event.partial:
                yield event

    async def __aiter__(self) -> AsyncIterator[Event]:
        async with aclosing(aiter(self._events)) as events:  # type: ignore[type-var]
            async for event in events:
                if self._partials or not event.partial:
                    yield event

    async def batches(self) -> AsyncGenerator[Sequence[StoredEvent]]:
        """The events as `async for` gives them, but as they are stored, and at once those that have come at once."""
        async with aclosing(self._events.batches()) as batches:
            async for batch in batches:
                if wanted := [stored for stored in batch if self._partials or stored.seq]:
                    yield wanted

    def close(self) -> None:
        """Follow the session no more: iterations under way end after what has come."""
        self._events.detach()


class ArtifactsService(RuntimeService[M]):
    """Artifacts of the app's sessions. All sessions of a user share the names that begin with `user:`."""

    @in_thread
    def save(self, user_id: str, session_id: str, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0. Raises InvalidIdError, ArtifactError."""
        key = checked_key(self._client.app_name, user_id, session_id)
        return self._client.artifacts.save(key, checked_artifact_name(filename), part)

    @in_thread
    def load(self, user_id: str, session_id: str, filename: str, version: int | None = None) -> Part | None:
        """Load a version, by default the latest; None when there is none."""
        return self._client.artifacts.load(self._key(user_id, session_id), checked_artifact_name(filename), version)

    @in_thread
    def list_keys(self, user_id: str, session_id: str) -> list[str]:
        """List the names of all artifacts that the session sees, sorted."""
        return self._client.artifacts.keys(self._key(user_id, session_id))

    @in_thread
    def list_versions(self, user_id: str, session_id: str, filename: str) -> list[int]:
        """List all versions of an artifact, oldest first."""
        return self._client.artifacts.versions(self._key(user_id, session_id), checked_artifact_name(filename))

    @in_thread
    def delete(self, user_id: str, session_id: str, filename: str) -> None:
        """Delete an artifact with all its versions; a missing one is no error."""
        self._client.artifacts.delete(self._key(user_id, session_id), checked_artifact_name(filename))

    @in_thread
    def delete_session(self, user_id: str, session_id: str) -> int:
        """Delete all artifacts of a session but those that the user's sessions share, and return how many there were."""
        return self._client.artifacts.delete_session(self._key(user_id, session_id))

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return checked_known_key(self._client.app_name, user_id, session_id)
