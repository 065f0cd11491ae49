"""Deleting a user in the Session actor: what is under way is named, what comes waits, and no hold lasts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.errors import TurnCancelledError
from actors.layers.users import HoldUser, ReleaseUser, RemoveUser
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture, settled

HOLD = HoldUser(app=KEY.app, user=KEY.user)


async def test_an_open_turn_is_named_and_a_waiting_one_is_cancelled(desk: SessionFixture) -> None:
    await desk.open("e-1")
    waiting = asyncio.create_task(desk.ask_to_open("e-2"))
    await settled()
    held = await desk.ref.ask(HOLD)
    assert [tuple(turn) for turn in held.turns] == [(KEY, "e-1")]
    assert not held.is_idle
    with pytest.raises(TurnCancelledError):
        await waiting
    await desk.close("e-1", p.Cancelled())
    assert (await desk.ref.ask(HOLD)).is_idle


async def test_an_open_turn_that_only_the_store_knows_is_named(desk: SessionFixture, tmp_path: Path) -> None:
    await desk.open("e-1")
    restarted = SessionFixture(tmp_path)
    assert [tuple(turn) for turn in (await restarted.ref.ask(HOLD)).turns] == [(KEY, "e-1")]


async def test_what_comes_while_the_user_is_held_waits_until_it_is_released(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    assert (await desk.ref.ask(HOLD)).is_idle
    opening = asyncio.create_task(desk.ask_to_open("e-2"))
    making = asyncio.create_task(desk.ref.ask(p.CreateSessionRequest(key=SessionKey(KEY.app, KEY.user, "new"))))
    await settled()
    assert not opening.done()
    assert not making.done()
    # What waits for it does not hold it up.
    assert (await desk.ref.ask(HOLD)).is_idle
    removed = await desk.ref.ask(RemoveUser(app=KEY.app, user=KEY.user))
    assert (list(removed.sessions), removed.events) == (["s1"], 2)
    await settled()
    assert not opening.done()
    await desk.ref.ask(ReleaseUser(app=KEY.app, user=KEY.user))
    opened = await opening
    assert isinstance(opened, p.TurnBegun)
    assert opened.seq == 1
    await making


async def test_other_users_are_not_held(desk: SessionFixture) -> None:
    await desk.ref.ask(HoldUser(app=KEY.app, user="somebody else"))
    await desk.turn("e-1", "hello")
    await desk.turn("e-1", "hello", key=OTHER)


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
