"""Lists over several stores: in one order, and each thing once, also where a user is moved while the stores are asked."""

from __future__ import annotations

from actors.messages.protocol.sessions import SessionInfo
from actors.messages.session import SessionKey
from actors.messages.turn_info import TurnInfo
from actors.rules.placing import listing


def session(user: str, updated_s: float) -> SessionInfo:
    return SessionInfo(key=SessionKey("app", user, "s"), updated_s=updated_s)


def turn(user: str, begun_s: float, state: str = "finished") -> TurnInfo:
    return TurnInfo(user_id=user, session_id="s", invocation_id=f"e-{user}", state=state, begun_s=begun_s)  # type: ignore[arg-type]


def test_sessions_of_all_stores_come_in_the_order_in_which_they_were_written() -> None:
    pages = [[session("ada", 5.0), session("bob", 1.0)], [session("cyd", 3.0)]]
    assert [each.key.user for each in listing.sessions(pages, None)] == ["ada", "cyd", "bob"]
    assert [each.key.user for each in listing.sessions(pages, 2)] == ["ada", "cyd"]


def test_a_user_who_is_moved_meanwhile_is_listed_once() -> None:
    moved = session("ada", 5.0)
    found = listing.sessions([[moved, session("bob", 1.0)], [moved, session("cyd", 3.0)]], 3)
    assert [each.key.user for each in found] == ["ada", "cyd", "bob"]
    turns = listing.turns([[turn("ada", 2.0)], [turn("ada", 2.0), turn("bob", 0.0, "waiting")]], 9)
    assert [each.user_id for each in turns] == ["bob", "ada"]
