"""Users who are held, and moved between two stores."""

from __future__ import annotations

import asyncio
from functools import reduce
from pathlib import Path

import pytest

from actors.errors import TurnCancelledError
from actors.layers.placing.messages import AdmitUser, BeginArrival, LeaveStore, ReadUserRows, StageUserRows
from actors.layers.placing.rules import digest_with
from actors.layers.users import HoldUser, ReleaseUser
from actors.messages import protocol as p
from actors.session.environment import StorePlace
from tests.support.fixtures.session_fixture import KEY, SessionFixture, settled

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


APP, USER = KEY.app, KEY.user


def stores(folder: Path) -> list[SessionFixture]:
    """The Session actors of two stores."""
    made = []
    for number in range(2):
        of_store = folder / f"{number}"
        of_store.mkdir()
        made.append(SessionFixture(of_store, place=StorePlace(number, 2)))
    return made


async def move(source: SessionFixture, target: SessionFixture, token: str, *, to: int) -> None:
    """Move the user, whose session is read while that is under way. The program is lost before it lets go."""
    held = await source.ref.ask(HoldUser(app=APP, user=USER, moves=True, token=token))
    assert held.is_idle
    await source.log()
    await target.ref.ask(BeginArrival(app=APP, user=USER, token=token, source=1 - to))
    parts, part = [], await source.ref.ask(ReadUserRows(app=APP, user=USER))
    while part.next:
        parts.append(part.raw)
        part = await source.ref.ask(ReadUserRows(app=APP, user=USER, after=part.next))
    for number, raw in enumerate(parts, start=1):
        await target.ref.ask(StageUserRows(app=APP, user=USER, token=token, number=number, raw=raw))
    digest = reduce(digest_with, parts, b"")
    await source.ref.ask(LeaveStore(app=APP, user=USER, to=to, rows=len(parts), token=token, digest=digest))
    await target.ref.ask(AdmitUser(app=APP, user=USER, token=token))


async def test_a_user_who_comes_back_has_what_was_written_in_the_other_store(tmp_path: Path) -> None:
    first, second = stores(tmp_path)
    await first.turn("e-1", "one", state={"user:n": 1, "k": 1})
    await move(first, second, "there", to=1)
    await second.turn("e-2", "two", state={"user:n": 2, "k": 2})
    await move(second, first, "back", to=0)
    assert await first.state() == {"user:n": 2, "k": 2}
    await first.ref.ask(ReleaseUser(app=APP, user=USER, token="there"))
    await first.turn("e-3", "three")
    assert [text for _, _, text in await first.log()] == ["e-1?", "one", "e-2?", "two", "e-3?", "three"]
    for session in (first, second):
        await session.ref.stop()
