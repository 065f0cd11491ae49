"""Deleting a user in the Session actor: what is under way is named, what comes waits, and no hold lasts."""

from __future__ import annotations

from pathlib import Path

from actors.layers.users import HoldUser
from tests.support.fixtures.session_fixture import KEY, SessionFixture

HOLD = HoldUser(app=KEY.app, user=KEY.user)


async def test_an_open_turn_that_only_the_store_knows_is_named(desk: SessionFixture, tmp_path: Path) -> None:
    await desk.open("e-1")
    restarted = SessionFixture(tmp_path)
    assert [tuple(turn) for turn in (await restarted.ref.ask(HOLD)).turns] == [(KEY, "e-1")]


async def test_a_hold_that_is_not_renewed_for_a_minute_ends_by_itself(desk: SessionFixture) -> None:
    async def is_held() -> bool:
        return (await desk.ref.ask(HoldUser(app=KEY.app, user=KEY.user, renews=True))).is_held

    await desk.ref.ask(HOLD)
    for _ in range(2):
        desk.clock.now_s += 59
        assert await is_held()
    desk.clock.now_s += 60
    await desk.turn("e-1", "hello")
    assert not await is_held()
