"""What holds for each message that writes: it is acknowledged when it is on disk, it may come twice, and it may be refused.

A message that is new fails here until it has an example.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.layers.listing.client import list_turns
from actors.layers.listing.messages import ListTurns
from actors.layers.placing.messages import GetArrivalDigest, GetPlacement, ListArrivals, ReadUserRows
from actors.layers.users import HoldUser, ReleaseUser
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture, settled
from tests.unit.session.examples import (
    APP,
    DELETION,
    FAILED,
    FILL,
    FOLLOWED,
    LONG,
    MOVE,
    NEW,
    PAUSED,
    USER,
    WRITES,
    Desk,
    Example,
    prepared,
    reads,
)

HELD_MEANWHILE = (GetArrivalDigest, GetPlacement, HoldUser, ListArrivals, ReadUserRows, ReleaseUser)
"""Messages of moves and deletions that write nothing."""

ENDS_ALL_THE_SAME = ("CancelTurn-open", "CloseTurn", "CloseTurn-cancelled", "CloseTurn-paused")
"""Their turn has ended although the store has refused that: the end is stored when the store is back."""

COUNTED = ("seq", "rewinds", "turns", "status", "epoch", "last_seq", "paused", "author", "key", "position", "number")
"""Columns of tables in which something would be that was done twice."""

SESSIONS = (KEY, OTHER, PAUSED, FAILED, NEW, LONG)

pytestmark = pytest.mark.sampled(3, of="module", full=3)

each = pytest.mark.parametrize("name", WRITES)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_each_message_of_a_session_actor_has_an_example(tmp_path: Path) -> None:
    actor = SessionFixture(tmp_path).actor
    kinds: set[type[p.Message]] = {*actor.handlers()}
    writing = {name.partition("-")[0] for name in WRITES}
    asking: set[type[p.Message]] = {*reads(), *HELD_MEANWHILE}
    silent = {kind.__name__ for kind in asking}
    assert not writing & silent
    assert writing | silent == {kind.__name__ for kind in kinds - {p.Poll}}


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.__name__) for kind in reads()])
async def test_a_message_that_only_asks_writes_nothing(desk: Desk, kind: type[p.Message]) -> None:
    for need in FILL:
        await need(desk)
    before = desk.stored()
    await desk.ask(reads()[kind].make(desk))
    assert desk.stored() == before


async def refused(desk: Desk, message: p.Message) -> None:
    """Have the store refuse what a message is to write."""
    before = desk.stored()
    desk.gate.refuses = True
    reply = await desk.ask(message)
    desk.gate.refuses = False
    assert isinstance(reply, p.ErrorReply)
    assert (reply.error, reply.args) == ("StoreError", ["the disk is full"])
    assert desk.stored() == before


async def seen(desk: Desk) -> list[object]:
    """What drivers and agents see of the sessions. The time of a session is stored with the end of its turn."""
    found: list[object] = []
    for key in SESSIONS:
        session = (await desk.session.ref.ask(p.GetSessionRequest(key=key))).session
        if session is not None:
            found += [msgspec.structs.replace(session, updated_s=0.0), await desk.session.state(key)]
    listed = await list_turns(desk.session.ref, ListTurns(app=APP))
    return [*found, *(msgspec.structs.replace(turn, epoch=0) for turn in listed)]


@each
async def test_what_the_store_refuses_changes_nothing_and_leaves_the_session_free(desk: Desk, name: str) -> None:
    await refused(desk, await prepared(desk, WRITES[name]))
    for hold in (MOVE, DELETION):
        await desk.done(ReleaseUser(app=APP, user=USER, token=hold.token))
    if name not in ENDS_ALL_THE_SAME:
        assert await seen(desk) == await seen(desk.heir())
    async with asyncio.timeout(10):
        for key in SESSIONS:
            await next_turn(desk, key)


async def next_turn(desk: Desk, key: SessionKey) -> None:
    """Run a turn in a session, once the one that is open there is cancelled."""
    for turn in await list_turns(desk.session.ref, ListTurns(app=APP, user=USER, session=key.session, state="running")):
        await desk.done(p.CancelTurn(key=key, invocation_id=turn.invocation_id, runner=desk.runner))
    await desk.session.open("e-next", key=key, runner=desk.runner)
    await desk.session.close("e-next", key=key)
    assert not await list_turns(desk.session.ref, ListTurns(app=APP, user=USER, session=key.session, state="running"))


@each
async def test_what_the_store_has_refused_may_be_sent_again(desk: Desk, name: str) -> None:
    message = await prepared(desk, WRITES[name])
    await refused(desk, message)
    if name in ENDS_ALL_THE_SAME:
        return
    before = desk.stored()
    await desk.done(message)
    assert desk.stored() != before
    now = await seen(desk)
    # What is owed to the store is stored then.
    await desk.done(p.Stop())
    assert await seen(desk.heir()) == now


@each
@pytest.mark.parametrize("is_lost", [False, True], ids=["reply-lost", "actor-lost"])
async def test_what_is_sent_twice_is_done_once(desk: Desk, name: str, is_lost: bool) -> None:
    example = WRITES[name]
    message = await prepared(desk, example)
    first = await desk.done(message)
    stored = rows(desk, example)
    if hasattr(message, "again"):
        message = msgspec.structs.replace(message, again=True)
    second = await (desk.heir() if is_lost else desk).ask(message)
    if example.again is None:
        assert second == first
    elif isinstance(example.again, str):
        assert isinstance(second, p.ErrorReply)
        assert second.error == example.again
    else:
        assert isinstance(second, example.again)
    assert rows(desk, example) == stored


def rows(desk: Desk, example: Example) -> list[tuple[str, Mapping[str, Any]]]:
    """All that is stored; of a turn that is resumed each time without its epoch, and what comes with that."""
    left_out: Mapping[str, Mapping[str, Any]] = {"turns": {"epoch": 0, "temp": b""}, "sessions": {"updated_s": 0.0}}
    resumes = example.again in (p.TurnResumed, FOLLOWED)
    return [(table, {**row, **left_out.get(table, {})} if resumes else row) for table, row in desk.stored()]


@each
@pytest.mark.parametrize("refuses", [False, True], ids=["stored", "refused"])
async def test_nothing_is_acknowledged_before_it_is_on_disk(desk: Desk, name: str, refuses: bool) -> None:
    message = await prepared(desk, WRITES[name])
    desk.gate.shut()
    first = asyncio.create_task(desk.ask(message))
    await asyncio.to_thread(desk.gate.is_reached.wait, 20)
    # It comes once more meanwhile, as from a driver that has waited for long.
    second = asyncio.create_task(desk.ask(message))
    await settled()
    early = [asked.result() for asked in (first, second) if asked.done()]
    desk.gate.refuses = refuses
    desk.gate.open()
    replies = [await first, await second]
    assert all(isinstance(reply, p.ErrorReply) for reply in early)
    assert isinstance(replies[0], p.ErrorReply) == refuses, replies
    if refuses:
        assert isinstance(replies[1], p.ErrorReply), replies


@each
@pytest.mark.full
async def test_a_write_behind_which_the_connection_breaks_is_done_once(tmp_path: Path, name: str) -> None:
    stored = []
    for breaks in (False, True):
        folder = tmp_path / f"{breaks}"
        folder.mkdir()
        desk = Desk(folder)
        message = await prepared(desk, WRITES[name])
        desk.gate.breaks = breaks
        await desk.done(message)
        assert not desk.gate.breaks
        stored.append([(table, {column: row.get(column) for column in COUNTED}) for table, row in desk.stored()])
    assert stored[0] == stored[1]
    # The user may have left.
    if name != "LeaveStore":
        assert await seen(desk) == await seen(desk.heir())
