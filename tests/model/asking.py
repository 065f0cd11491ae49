"""Has a program do what a request of a history says, through the public API, and notes all that comes of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from actors import RunConfig
from actors.errors import RaygroveError
from tests.model.history import Ask, History


async def perform(rt: Any, history: History, ask: Ask) -> None:
    """Make a request.

    Args:
        rt: a Runtime.
        history: that has noted the request as one that is about to be made.
    """
    sessions, place = rt.aio.sessions, (ask.user, ask.session)
    match ask.what:
        case "run" | "answer" | "attach" | "retry":
            turn = _turn(rt, ask)
            if not ask.turn:
                history.name(ask, turn.invocation_id)
            await history.read(ask, turn)
            if ask.steers:
                # An error that ends the turn may come before the reply which says whose it is.
                with suppress(RaygroveError):
                    await turn.aio.started()
                history.name(ask, turn.invocation_id)
        case "cancel":
            await history.wait(ask, _attached(rt, ask).aio.cancel())
        case "get" | "delete":
            await history.wait(ask, getattr(sessions, ask.what)(*place))
        case "rewind":
            await history.wait(ask, sessions.rewind(*place, ask.turn))
        case "fork":
            await history.wait(ask, sessions.fork(*place, ask.turn, ask.given["fork_id"]))
        case "prune" | "archive":
            await history.wait(ask, getattr(sessions, ask.what)(ask.given["older_than"], user_id=ask.user))
        case "append_event":
            await history.wait(ask, sessions.append_event(*place, ask.given["event"]))


def _turn(rt: Any, ask: Ask) -> Any:
    if ask.what == "attach":
        return _attached(rt, ask)
    of_session = {"user_id": ask.user, "session_id": ask.session}
    if ask.what == "retry":
        # None: it keeps those that it has.
        options = ask.config if ask.config != RunConfig() else None
        return rt.retry(**of_session, invocation_id=ask.turn, run_config=options, **ask.given)
    if ask.what == "answer":
        [(call_id, response)] = ask.responses.items()
        return rt.answer(call_id, response, **of_session, run_config=ask.config)
    more: dict[str, Any] = {} if ask.responses or not ask.turn else {"invocation_id": ask.turn}
    return rt.run(**of_session, **more, message=ask.message, run_config=ask.config, fingerprint=ask.fingerprint, **ask.given)


def _attached(rt: Any, ask: Ask) -> Any:
    return rt.attach(user_id=ask.user, session_id=ask.session, invocation_id=ask.turn)
