"""Sessions: create, list, read, change, rewind, export and delete them; their events, in pages or as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.responses import Response, StreamingResponse

from actors.errors import SessionNotFoundError
from actors.messages.event import USER, Event, EventActions, new_event_id, now_s
from actors.messages.json_types import JsonObject
from actors.messages.session import Session
from actors.messages.turn_info import TurnInfo
from runtime.driver.operation import MAX_PAGE, Id, Limit, Position, State
from runtime.driver.turns.finding import LOOKED_AT, newest_of_session
from runtime.frontends.web.api.lists import decode_session, encode_session, has_text, page_of
from runtime.frontends.web.call import Call, json_response
from runtime.frontends.web.operation import STREAM, Header, HttpOperation
from runtime.frontends.web.problems import shown, shown_turn
from runtime.frontends.web.streams import EventStream, session_frames

JSON_LINES = "application/jsonl"


class SessionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session without its events.

    Attributes:
        app_name, user_id, id: name it.
        state: all scopes merged, app's and user's keys under their `app:` and `user:` prefix.
        last_update_time: seconds since the epoch.
        head_seq: position of its newest event; 0 when it has none.
        turn: the turn that runs or waits, or else the last one; null before the first.
    """

    app_name: str
    user_id: str
    id: str
    state: JsonObject
    last_update_time: float
    head_seq: int = 0
    turn: TurnInfo | None = None


class SessionList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of sessions, those that changed last first; `next`: the `before` of the next page."""

    sessions: Sequence[Session]
    next: str | None = None


class EventPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of events; `next`: the `after_seq` of the next page, or its `before_seq` with `newest_first`."""

    events: Sequence[Event]
    next: int | None = None


class NewSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A session to create; `id`: null has one chosen."""

    id: Id | None = None
    state: State = {}


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Changes of a session's state; a key whose value is null is deleted."""

    state_delta: State


class RewindTo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The turn before which a session is taken back."""

    invocation_id: Id


class ForkAt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The turn up to whose end a fork has everything; `id`: of the fork, null has one chosen."""

    invocation_id: Id
    id: Id | None = None


class SessionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sessions.

    Attributes:
        before: the `next` of the page before.
        q: a part of the id of the session, or of the user. A page of what fits may be empty, and have a `next`.
    """

    limit: Limit = 100
    before: str | None = None
    q: str = ""


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events."""

    after_seq: Position = 0
    before_seq: Position | None = None
    limit: Limit = 100
    newest_first: bool = False
    partials: bool = True


async def create_session(call: Call) -> Response:
    """Create a session."""
    given = await call.body(NewSession)
    call.principal.check_state(given.state)
    session = await call.runtime.aio.sessions.create(call.user_id, given.id, given.state)
    return json_response(session, 201, {"Location": call.url("sessions", session.id)})


async def list_sessions(call: Call) -> SessionList:
    """List the sessions of a user; with credentials for any user, and without a user, those of all users."""
    query = call.query(SessionsQuery)
    user_id, sessions = call.any_user_id, call.runtime.aio.sessions
    found, last = await page_of(
        lambda limit, after: sessions.list(user_id, limit=limit, before=after),
        query.limit,
        decode_session(query.before),
        (lambda session: has_text(query.q, session.id, session.user_id)) if query.q else None,
    )
    return SessionList(sessions=found, next=encode_session(last))


async def get_session(call: Call) -> SessionView:
    """Read a session: its state, its newest position, and its turn."""
    aio, user_id, session_id = call.runtime.aio, call.user_id, call.session_id
    session = await session_of(call)
    newest, turns = await asyncio.gather(
        aio.sessions.events(user_id, session_id, newest_first=True, limit=1),
        aio.turns.list(user_id, session_id, limit=LOOKED_AT),
    )
    turn = newest_of_session(turns)
    return SessionView(
        app_name=session.app_name,
        user_id=session.user_id,
        id=session.id,
        state=session.state,
        last_update_time=session.last_update_time,
        head_seq=newest[0].seq if newest else 0,
        turn=shown_turn(turn, for_operator=call.principal.is_admin) if turn is not None else None,
    )


async def session_of(call: Call) -> Session:
    """The session in the path, without events. Raises SessionNotFoundError."""
    session = await call.runtime.aio.sessions.get(call.user_id, call.session_id, num_recent_events=0)
    if session is None:
        raise SessionNotFoundError(call.path("app"), call.user_id, call.session_id)
    return session


async def change_session(call: Call) -> Session:
    """Change the state of a session, while none of its turns runs."""
    given = await call.body(SessionChange)
    await change_state(call, given.state_delta)
    return await session_of(call)


async def change_state(call: Call, state_delta: JsonObject) -> None:
    """Append an event that changes the state, as ADK does. Raises NotAllowedError, SessionBusyError."""
    call.principal.check_state(state_delta)
    event = Event(
        id=new_event_id(),
        invocation_id=f"p-{new_event_id()}",
        author=USER,
        timestamp=now_s(),
        actions=EventActions(state_delta=state_delta),
    )
    await call.runtime.aio.sessions.append_event(call.user_id, call.session_id, event)


async def delete_session(call: Call) -> None:
    """Delete a session with its artifacts; one that is missing is no error."""
    await call.runtime.aio.sessions.delete(call.user_id, call.session_id)


async def rewind_session(call: Call) -> None:
    """Take a session back to before a turn."""
    given = await call.body(RewindTo)
    await call.runtime.aio.sessions.rewind(call.user_id, call.session_id, given.invocation_id)


async def fork_session(call: Call) -> Response:
    """Make a new session that has all of a session up to the end of a turn."""
    given = await call.body(ForkAt)
    fork = await call.runtime.aio.sessions.fork(call.user_id, call.session_id, given.invocation_id, given.id)
    return json_response(fork, 201, {"Location": call.url("sessions", fork.id)})


async def read_events(call: Call) -> Response:
    """Read a page of a session's events. As a stream: all events after a position, over all turns, and those that come."""
    query = call.query(EventsQuery)
    user_id, session_id, for_operator = call.user_id, call.session_id, call.principal.is_admin
    if call.wants_stream():
        # Before the stream begins: a session that is missing is a status, and no frame.
        await session_of(call)
        after_seq = call.last_event_id(query.after_seq)
        with call.slot() as slot:
            tail = call.runtime.sessions.tail(user_id, session_id, after_seq=after_seq, partials=query.partials)
            frames = session_frames(tail, for_operator=for_operator)
            return EventStream(frames, call.served.slots, slot, keep_alive_s=call.served.keep_alive_s)
    events = await call.runtime.aio.sessions.events(
        user_id,
        session_id,
        after_seq=query.after_seq,
        before_seq=query.before_seq,
        limit=query.limit,
        newest_first=query.newest_first,
    )
    more = events[-1].seq if len(events) == query.limit else None
    return json_response(EventPage(events=[shown(event, for_operator=for_operator) for event in events], next=more))


async def export_session(call: Call) -> Response:
    """Read a whole session as lines of JSON: first the session, then each of its events."""
    session = await session_of(call)
    return StreamingResponse(_lines(call, session), media_type=JSON_LINES)


async def _lines(call: Call, session: Session) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(session) + b"\n"
    after_seq, for_operator = 0, call.principal.is_admin
    while page := await call.runtime.aio.sessions.events(session.user_id, session.id, after_seq=after_seq, limit=MAX_PAGE):
        yield b"".join(msgspec.json.encode(shown(event, for_operator=for_operator)) + b"\n" for event in page)
        after_seq = page[-1].seq


_SESSIONS = "/v1/apps/{app}/sessions"
_SESSION = "/v1/apps/{app}/sessions/{session}"
LAST_EVENT_ID = Header(
    "Last-Event-ID",
    "the id of the last event that came: the stream goes on after it",
    {"type": "string", "pattern": "^([0-9]{1,18})?$"},
)

OPERATIONS = [
    HttpOperation("GET", _SESSIONS, list_sessions, query=SessionsQuery, gives=SessionList, users="any"),
    HttpOperation("POST", _SESSIONS, create_session, body=NewSession, gives=Session, status=201),
    HttpOperation("GET", _SESSION, get_session, gives=SessionView),
    HttpOperation("PATCH", _SESSION, change_session, body=SessionChange, gives=Session),
    HttpOperation("DELETE", _SESSION, delete_session, status=204),
    HttpOperation("POST", f"{_SESSION}/rewind", rewind_session, body=RewindTo, status=204),
    HttpOperation("POST", f"{_SESSION}/fork", fork_session, body=ForkAt, gives=Session, status=201),
    HttpOperation("GET", f"{_SESSION}/export", export_session, gives_media=[JSON_LINES]),
    HttpOperation(
        "GET",
        f"{_SESSION}/events",
        read_events,
        query=EventsQuery,
        gives=EventPage,
        gives_media=[STREAM],
        headers=[LAST_EVENT_ID],
    ),
]
"""What can be done with sessions."""
