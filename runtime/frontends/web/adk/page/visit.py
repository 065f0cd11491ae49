"""Which session the page shows. Some of its requests do not say so, but the page's own address does, in the header `Referer`."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from actors.errors import InvocationNotFoundError, RequestError
from actors.messages.llm.model import LlmRequest
from actors.messages.session import Session
from runtime.frontends.web.operations.call import Call

SPEAKING = 100
"""In so many of a session's newest events graphs look for agents that have spoken."""

TRACED = 1_000
"""So many of a session's newest events are traced."""

WITH_REQUESTS = 20
"""Of so many of a session's newest turns traces have what models were asked."""


async def visited(call: Call, newest: int = SPEAKING) -> Session | None:
    """The session that the page shows, with its newest events; None when it shows none yet."""
    query = parse_qs(urlsplit(call.request.headers.get("referer", "")).query)
    [app], [user], [session] = (query.get(name, [""])[-1:] for name in ("app", "userId", "session"))
    if app != call.path("app") or not user or not session:
        return None
    try:
        return await _read(call, user, session, newest)
    except RequestError:
        # The address may name anything.
        return None


async def traced(call: Call) -> Session | None:
    """The session in the path, which names no user; None when there is none."""
    found = await visited(call, TRACED)
    if found is not None and found.id == call.session_id:
        return found
    for each in await call.runtime.aio.sessions.list():
        if each.id == call.session_id:
            return await _read(call, each.user_id, each.id, TRACED)
    return None


async def recorded_requests(call: Call, session: Session) -> dict[str, LlmRequest]:
    """Read what models were asked in the newest turns of a session, by the ids of the events that have their answers.

    For operators; none for others, and of turns that were not recorded.
    """
    if not call.principal.is_admin:
        return {}
    turns = list(dict.fromkeys(event.invocation_id for event in reversed(session.events)))[:WITH_REQUESTS]
    found: dict[str, LlmRequest] = {}
    for invocation_id in turns:
        # A turn may have no record: one of an imported conversation, or an event beside all turns.
        with suppress(InvocationNotFoundError):
            recorded = await call.runtime.aio.turns.requests(session.user_id, session.id, invocation_id)
            found.update((each.event_id, each.request) for each in recorded if each.request is not None)
    return found


async def _read(call: Call, user_id: str, session_id: str, newest: int) -> Session | None:
    return await call.runtime.aio.sessions.get(call.principal.check_user(user_id), session_id, num_recent_events=newest)
