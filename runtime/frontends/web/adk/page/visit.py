"""Which session the page shows. Some of its requests do not say so, but the page's own address does, in the header `Referer`."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from actors.errors import RequestError
from actors.messages.session import Session
from runtime.frontends.web.operations.call import Call

SPEAKING = 100
"""In so many of a session's newest events graphs look for agents that have spoken."""

TRACED = 1_000
"""So many of a session's newest events are traced."""


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


async def _read(call: Call, user_id: str, session_id: str, newest: int) -> Session | None:
    return await call.runtime.aio.sessions.get(call.principal.check_user(user_id), session_id, num_recent_events=newest)
