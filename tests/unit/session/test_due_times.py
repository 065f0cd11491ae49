"""What is due is found also where the clock was set back while turns of later due times were about to begin."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors import Content
from actors.errors import ScheduleNotFoundError
from actors.layers.schedules.messages import AwaitDue, CreateSchedule, DueReply, PassDueTime
from actors.layers.stores.schedule import DuePlace, SchedulePlan, Timing
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.protocol.turns import ScheduledTime
from tests.support.fixtures.session_fixture import KEY, SessionFixture


async def test_what_is_created_before_the_place_that_a_runner_has_read_is_read_from_the_first(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path)
    now = int(now_s())
    message = AwaitDue(app="app", runner="app/runner/one", after=DuePlace(now + 3_600, "ada", "read before"))
    waiting = asyncio.create_task(session.ref.ask(message))
    await asyncio.sleep(0.1)
    plan = SchedulePlan(timing=Timing(at_s=now + 2), content=Content.of_text("go"))
    (await session.ref.ask(CreateSchedule(key=KEY, name="soon", id="1", plan=plan))).schedules[0]
    async with asyncio.timeout(10):
        reply = await waiting
        assert isinstance(reply, DueReply)
        assert (list(reply.turns), reply.after) == ([], None)
        found = await session.ref.ask(AwaitDue(app="app", runner="app/runner/one", after=reply.after))
    assert isinstance(found, DueReply)
    assert [turn.time.name for turn in found.turns] == ["soon"]
    await session.ref.stop()


@pytest.mark.parametrize("how", ["begun", "passed"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["actor-lives", "actor-lost"])
async def test_a_due_time_that_was_dealt_with_begins_no_turn(session: SessionFixture, how: str, is_lost: bool) -> None:
    plan = SchedulePlan(timing=Timing(every_s=60), content=Content.of_text("go"))
    schedule = (await session.ref.ask(CreateSchedule(key=KEY, name="often", id="1", plan=plan))).schedules[0]
    assert schedule.due_s is not None
    time = ScheduledTime("often", "1", schedule.due_s, schedule.due_s + 60)
    if how == "begun":
        await session.open(due=time)
        await session.close()
    else:
        await session.ref.ask(PassDueTime(key=KEY, time=time, error="E"))
    if is_lost:
        session = session.heir()
    with pytest.raises(ScheduleNotFoundError):
        await session.open("e-2", due=time)
    next_time = ScheduledTime("often", "1", schedule.due_s + 60, schedule.due_s + 120)
    assert isinstance(await session.open("e-2", due=next_time), p.TurnBegun)
