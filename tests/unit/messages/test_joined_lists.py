"""Lists over several stores: in one order, and each thing once, also where a user is moved while the stores are asked."""

from __future__ import annotations

from actors.layers.listing.messages import ListTurns
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo


def session(user: str, updated_s: float) -> p.SessionInfo:
    return p.SessionInfo(key=SessionKey("app", user, "s"), updated_s=updated_s)


def turn(user: str, begun_s: float, state: str = "finished") -> TurnInfo:
    return TurnInfo(user_id=user, session_id="s", invocation_id=f"e-{user}", state=state, begun_s=begun_s)  # type: ignore[arg-type]


def users(limit: int | None, *pages: list[p.SessionInfo]) -> list[str]:
    joined = p.ListSessionsRequest(app="app", limit=limit).joined([p.SessionsReply(sessions=page) for page in pages])
    return [each.key.user for each in joined.sessions]


def test_sessions_of_all_stores_come_in_the_order_in_which_they_were_written() -> None:
    pages = [session("ada", 5.0), session("bob", 1.0)], [session("cyd", 3.0)]
    assert users(None, *pages) == ["ada", "cyd", "bob"]
    assert users(2, *pages) == ["ada", "cyd"]


def test_a_user_who_is_moved_meanwhile_is_listed_once() -> None:
    moved = session("ada", 5.0)
    assert users(3, [moved, session("bob", 1.0)], [moved, session("cyd", 3.0)]) == ["ada", "cyd", "bob"]
    turns = ListTurns(app="app", limit=9).merged([[turn("ada", 2.0)], [turn("ada", 2.0), turn("bob", 0.0, "waiting")]])
    assert [each.user_id for each in turns] == ["bob", "ada"]
