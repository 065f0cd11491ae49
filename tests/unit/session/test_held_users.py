"""No message changes what a user has while the user is held: each message of a Session actor is sent to one who is.

A message that is new fails here until it has an example, and the right lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.layers.placing.messages import GetArrivalDigest, GetPlacement, LeaveStore, ListArrivals, ReadUserRows
from actors.layers.retention.messages import ArchiveOldEvents, PruneSessions
from actors.layers.schedules.messages import AwaitDue
from actors.layers.users import HoldUser, ReleaseUser, UserHeld
from actors.messages import protocol as p
from actors.messages.protocol.base import Lane
from actors.session.environment import StorePlace
from tests.support.fixtures.session_fixture import SessionFixture, settled
from tests.unit.session.examples import (
    CHANGING,
    FILL,
    MOVE,
    MOVES,
    NEW,
    OF_OPEN_TURNS,
    OTHERS,
    RELEASE,
    Desk,
    Example,
    begin_on_budget,
    hold_for_move,
    leave,
    start_run,
)

pytestmark = pytest.mark.sampled(3, of="module", full=3)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path, StorePlace(0, 2))
    for need in FILL:
        await need(made)
    return made


def of(kinds: Mapping[type[p.Message], Example]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.__name__) for kind in kinds])


OF_MANY = {ArchiveOldEvents, AwaitDue, PruneSessions}
"""Messages that write something of several users, whom they do not name: their handlers wait for each by themselves."""

HOLDS = {*MOVES, GetArrivalDigest, GetPlacement, HoldUser, ListArrivals, ReadUserRows, ReleaseUser}
"""Messages of those that hold users: steps of a move, or of a deletion."""


def test_each_message_of_a_session_actor_has_an_example(tmp_path: Path) -> None:
    kinds = set(SessionFixture(tmp_path).actor.handlers()) - HOLDS - {p.Poll}
    writes = {kind for kind in kinds if kind.lane in (Lane.BEGIN, Lane.CHANGE, Lane.GO_ON)} - {p.FindTurn}
    assert CHANGING.keys() | OF_OPEN_TURNS.keys() == writes | OF_MANY
    assert OTHERS.keys() == kinds - writes - OF_MANY


@of(CHANGING)
async def test_a_message_that_changes_something_waits_until_the_user_is_free(desk: Desk, kind: type[p.Message]) -> None:
    await hold_for_move(desk)
    before = await desk.has()
    asked = asyncio.create_task(desk.ask(CHANGING[kind].make(desk)))
    assert await desk.has() == before
    assert not asked.done()
    await desk.ask(RELEASE)
    if kind is AwaitDue:
        # It waits for more, and looks again after a while. So does the next one, which looks at once.
        again = asyncio.create_task(desk.ask(CHANGING[kind].make(desk)))
    else:
        assert not isinstance(await asked, p.ErrorReply)
    # So it is an example of what it has to be one of.
    assert await desk.has() != before
    if kind is AwaitDue:
        await desk.ask(p.Stop())
        await asyncio.gather(asked, again)


@of(OF_OPEN_TURNS)
async def test_a_user_with_an_open_turn_is_not_held_by_a_move_and_its_messages_wait_where_there_is_none(
    desk: Desk, kind: type[p.Message]
) -> None:
    await begin_on_budget(desk)
    for need in OF_OPEN_TURNS[kind].needs:
        # Of the turn that has begun.
        if need in (leave, start_run):
            await need(desk)
    held = await desk.ask(MOVE)
    assert isinstance(held, UserHeld)
    assert [tuple(turn) for turn in held.turns] == [(NEW, "e-new")]
    assert not held.is_idle
    before = await desk.has()
    await desk.done(OF_OPEN_TURNS[kind].make(desk))
    assert await desk.has() != before
    if kind is not p.CloseTurn:
        await desk.session.close("e-new", key=NEW, epoch=2 if kind is p.ResumeTurn else 1)
    await hold_for_move(desk)
    asked = asyncio.create_task(desk.ask(OF_OPEN_TURNS[kind].make(desk)))
    await desk.has()
    assert not asked.done()
    await desk.ask(RELEASE)
    await asked


@of({kind: each for kind, each in {**CHANGING, **OF_OPEN_TURNS}.items() if kind not in OF_MANY})
async def test_a_message_that_has_waited_for_a_move_changes_nothing_where_the_user_was(desk: Desk, kind: type[p.Message]) -> None:
    await begin_on_budget(desk)
    await desk.session.close("e-new", key=NEW)
    await hold_for_move(desk)
    asked = asyncio.create_task(desk.ask({**CHANGING, **OF_OPEN_TURNS}[kind].make(desk)))
    await settled()
    await desk.done(MOVES[LeaveStore].make(desk))
    before = desk.stored()
    await desk.ask(RELEASE)
    reply = await asked
    assert isinstance(reply, p.ErrorReply)
    assert reply.error == "UserElsewhereError"
    assert desk.stored() == before


@of(OTHERS)
async def test_a_message_that_changes_nothing_does_not(desk: Desk, kind: type[p.Message]) -> None:
    before = await desk.has()
    await desk.ask(OTHERS[kind].make(desk))
    assert await desk.has() == before
