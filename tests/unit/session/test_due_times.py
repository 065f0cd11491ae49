"""What is due is found once it is stored, also before the place up to which a Runner has it, and until it is dealt with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from actors import Content
from actors.errors import ScheduleNotFoundError
from actors.layers.background.messages import StartRun
from actors.layers.schedules.messages import AwaitDue, ChangeSchedule, CreateSchedule, DueReply, PassDueTime
from actors.layers.stores.schedule import SchedulePlan, Timing, message_prefix
from actors.messages import protocol as p
from actors.messages.event import now_s
from actors.messages.protocol.turns import ScheduledTime
from tests.support.fixtures.session_fixture import KEY, SessionFixture, settled


async def due(session: SessionFixture, after: DueReply | None = None) -> DueReply:
    """Ask for what is due after a reply."""
    place, number = (after.after, after.number) if after is not None else (None, 0)
    async with asyncio.timeout(10):
        reply = await session.ref.ask(AwaitDue(app="app", runner="app/runner/one", after=place, number=number))
    assert isinstance(reply, DueReply)
    return reply


async def send(session: SessionFixture, agent: str) -> None:
    """Store a message to an agent, under its name."""
    await session.ref.ask(
        p.SendMessage(turn=session.turn_ref(), sender="root", agent=agent, id=agent, content=Content.of_text("go"))
    )


def found(reply: DueReply) -> list[str]:
    return [turn.time.id for turn in reply.turns]


@pytest.mark.parametrize("is_waiting", [False, True], ids=["between", "waiting"])
async def test_a_message_that_stands_before_the_place_of_a_runner_is_found(session: SessionFixture, *, is_waiting: bool) -> None:
    await session.open()
    then, first = sorted(("root", "a"), key=lambda agent: message_prefix(KEY, agent))
    await send(session, first)
    reply = await due(session)
    assert (found(reply), reply.after is None) == ([first], False)
    if is_waiting:
        asked = asyncio.create_task(due(session, reply))
        await settled()
        await send(session, then)
        assert found(await asked) == [then]
    else:
        await send(session, then)
        assert found(await due(session, reply)) == [then]


async def test_a_runner_that_has_lost_a_reply_is_given_all_again(session: SessionFixture) -> None:
    await session.open()
    await send(session, "a")
    reply = await due(session)
    await send(session, "root")
    # Its reply does not come.
    await due(session, reply)
    again = await due(session, reply)
    assert again.after is None
    assert sorted(found(await due(session, again))) == ["a", "root"]


async def created(session: SessionFixture) -> ScheduledTime:
    """Create a schedule. Returns its first due time."""
    plan = SchedulePlan(timing=Timing(every_s=60), content=Content.of_text("go"))
    schedule = (await session.ref.ask(CreateSchedule(key=KEY, name="often", id="1", plan=plan))).schedules[0]
    assert schedule.due_s is not None
    return ScheduledTime("often", "1", schedule.due_s, schedule.due_s + 60)


@pytest.mark.parametrize("how", ["begun", "passed"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["actor-lives", "actor-lost"])
async def test_a_due_time_that_was_dealt_with_begins_no_turn(session: SessionFixture, how: str, is_lost: bool) -> None:
    time = await created(session)
    if how == "begun":
        await session.open(due=time)
        await session.close()
    else:
        await session.ref.ask(PassDueTime(key=KEY, time=time, error="E"))
    if is_lost:
        session = session.heir()
    with pytest.raises(ScheduleNotFoundError):
        await session.open("e-2", due=time)
    next_time = ScheduledTime("often", "1", time.due_s + 60, time.due_s + 120)
    assert isinstance(await session.open("e-2", due=next_time), p.TurnBegun)


@pytest.mark.parametrize(
    ("change", "is_first"), [("pause", True), ("delete", True), ("delete", False), ("pass", True), ("pass", False)]
)
async def test_a_turn_that_is_about_to_begin_does_not_when_its_schedule_is_changed(
    session: SessionFixture, change: str, *, is_first: bool
) -> None:
    """`is_first`: the change is asked for before the turn is; otherwise the turn is."""
    time = await created(session)
    changes: dict[str, ChangeSchedule | PassDueTime] = {
        "pause": ChangeSchedule(key=KEY, name="often", id="1", change="pause"),
        "delete": ChangeSchedule(key=KEY, name="often", id="1", change="delete"),
        "pass": PassDueTime(key=KEY, time=time, error="E"),
    }
    both: list[Coroutine[Any, Any, Any]] = [session.ref.ask(changes[change]), session.open(due=time)]
    replies = await asyncio.gather(*(both if is_first else reversed(both)), return_exceptions=True)
    assert isinstance(replies[is_first], ScheduleNotFoundError)
    assert session.positions() == []
    if change == "pause":
        resumed = (await session.ref.ask(ChangeSchedule(key=KEY, name="often", id="1", change="resume"))).schedules[0]
        assert (resumed.due_s, resumed.turns) == (time.due_s, 0)
        assert isinstance(await session.open(due=time), p.TurnBegun)


async def test_a_turn_that_waits_in_line_is_not_missed(tmp_path: Path) -> None:
    late_s = 0.0
    session = SessionFixture(tmp_path, now_s=lambda: now_s() + late_s)
    plan = SchedulePlan(timing=Timing(every_s=900), content=Content.of_text("go"), missed="skip")
    [row] = (await session.ref.ask(CreateSchedule(key=KEY, name="often", id="1", plan=plan))).schedules
    assert row.due_s is not None
    await session.open("e-0")
    late_s = 901.0
    asked = asyncio.create_task(session.ask_to_open("e-1", due=ScheduledTime("often", "1", row.due_s, row.due_s + 900)))
    await settled()
    # Longer than a due time may wait for a deployment.
    late_s = 1000.0
    looks = asyncio.create_task(due(session))
    await settled()
    looks.cancel()
    await session.close("e-0")
    assert isinstance(await asked, p.TurnBegun)
    await session.ref.stop()


@pytest.mark.parametrize("pauses", range(3))
@pytest.mark.parametrize("is_first", [False, True])
async def test_the_first_message_of_a_run_fails_or_begins(session: SessionFixture, pauses: int, *, is_first: bool) -> None:
    await session.open()
    begin = StartRun(key=KEY, invocation_id="e-1", run="0" * 16, agent="a", started_by="root", content=Content.of_text("go"))
    await session.ref.ask(begin)
    [first] = (await due(session)).turns

    async def after_pauses(asked: Coroutine[Any, Any, Any], number: int) -> Any:
        for _ in range(number):
            await asyncio.sleep(0)
        return await asked

    fails = session.ref.ask(PassDueTime(key=first.key, time=first.time, error="UnknownAgentError: none"))
    begins = session.ask_to_open(first.time.id, key=first.key, due=first.time)
    reply: Any
    _, reply = await asyncio.gather(
        after_pauses(fails, 0 if is_first else pauses),
        after_pauses(begins, pauses if is_first else 0),
        return_exceptions=True,
    )
    waiting = session.store.schedules_with(KEY.app, KEY.user, message_prefix(KEY))
    told = [row.id for row in waiting if row.id.startswith("told-")]
    assert isinstance(reply, p.TurnBegun) != bool(told), (reply, told)
