"""One timetable: schedules are created, changed and deleted by drivers, and what they leave in the log is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from actors.errors import RaygroveError, ScheduleExistsError, ScheduleNotFoundError
from actors.layers.schedules.client import ScheduleClient, new_schedule_id
from actors.layers.schedules.messages import WatchSchedules
from actors.layers.stores.schedule import SchedulePlan, ScheduleRow, Timing
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.session import SessionKey
from tests.simulation.agents import build
from tests.simulation.drivers import APP, Driver, unless_lost
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.scenarios import Node
from tests.simulation.schedules.timetable import LASTS_S, Clear, Timetable, Wanted
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import EPOCH_S, World, deployment_of

SETTLE_S = 130.0
"""Virtual seconds that are waited for what was held up: as long as the slowest agent takes for all that may wait in a session."""

USER = "ada"

LOOKS, LOOK_S = 2_000, 0.02
"""So often a user looks whether a turn has ended, and how long it is between two looks."""


class Made(msgspec.Struct):
    """A schedule, and what became of it; times as the log has them.

    Attributes:
        id: of the schedule.
        created_s: when it was known to be created; 0: it could not be.
        pauses: from when on it was known to be paused, and until when it was not asked to go on.
        deleted_s: when it was known to be deleted; 0: it was not.
        row: as it is stored at the end; None: it is there no more.
    """

    wanted: Wanted
    id: str
    created_s: float = 0.0
    start_s: int = 0
    pauses: list[tuple[float, float]] = []
    deleted_s: float = 0.0
    row: ScheduleRow | None = None


class Timed(Left):
    """What a timetable has left besides.

    Attributes:
        made: the schedules.
        messages: the users' events of all sessions, by session, those included that were taken back or deleted.
        begun_s: when each of them was stored, by its id.
        open_turns: turns that are open at the end.
        ended_s: when no more was waited for.
    """

    made: list[Made] = []
    messages: dict[str, list[Event]] = {}
    begun_s: dict[str, float] = {}
    open_turns: list[str] = []
    ended_s: float = 0.0


def play(given: Timetable, seed: int) -> Timed:
    left = Timed()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        root = Node(kind="llm", name="root", thinks_s=given.thinks_s)
        world = World(loop, deployment_of(build(root)), given.plan, calls, seed)
        left.trace = world.trace
        await _meet(world, given, left)

    in_virtual_time(left, seed, meet)
    left.problems += problems(given, left)
    return left


async def _meet(world: World, given: Timetable, left: Timed) -> None:
    world.start()
    driver = Driver(world)
    await unless_lost(driver, driver.rt._client.engine.runner.ask(WatchSchedules()))
    doing: list[Any] = [_keep(world, wanted, left.made) for wanted in given.wanted]
    doing += [_talk(world, after_s, session) for after_s, session in given.talks]
    doing += [_clear_session(world, each) for each in given.clears]
    await asyncio.gather(asyncio.sleep(LASTS_S), *doing)
    await asyncio.sleep(SETTLE_S)
    left.ended_s = _now_s()
    store = world.disk.store
    for made in left.made:
        made.row = store.schedule(APP, USER, made.wanted.name)
    history = world.loop.history
    logs = [*history.removed, *history.stored.items()]
    for session in {made.wanted.session for made in left.made}:
        stored = [event for (_, of), log in logs if of == session for event in log]
        left.messages[session] = [event for event in stored if event.author == "user"]
    left.begun_s = {event: EPOCH_S + stored_s for event, (stored_s, _) in history.known.items()}
    # What began last may be on its way.
    left.open_turns = [row.invocation_id for _, row in store.running(APP) if left.ended_s - row.begun_s > SETTLE_S / 2]


def _now_s() -> float:
    return EPOCH_S + asyncio.get_running_loop().time()


async def _keep(world: World, wanted: Wanted, all_made: list[Made]) -> None:
    """Create a schedule, and change it when its time has come."""
    made, begins_s = Made(wanted, new_schedule_id()), _now_s()
    all_made.append(made)
    timing = Timing(every_s=wanted.every_s, at_s=0 if wanted.every_s else int(begins_s + wanted.at_s) + 1)
    plan = SchedulePlan(timing=timing, missed=wanted.missed, content=Content.of_text("tick"))
    key = SessionKey(APP, USER, wanted.session)
    try:
        await _asked(world, lambda client: client.create(key, wanted.name, plan, made.id))
    except ScheduleExistsError:
        # It was stored before the store was away.
        pass
    except RaygroveError:
        # A single due time has passed meanwhile.
        return
    made.created_s = _now_s()
    row = world.disk.store.schedule(APP, USER, wanted.name)
    made.start_s = row.plan.timing.start_s if row is not None else 0
    if wanted.paused_s:
        await _until(begins_s + wanted.paused_s)
        if await _changed(world, wanted.name, "pause"):
            paused_s = _now_s()
            if wanted.resumed_s:
                await _until(begins_s + wanted.resumed_s)
            made.pauses.append((paused_s, _now_s() if wanted.resumed_s else float("inf")))
            if wanted.resumed_s:
                await _changed(world, wanted.name, "resume")
    if wanted.deleted_s:
        await _until(begins_s + wanted.deleted_s)
        if await _changed(world, wanted.name, "delete"):
            made.deleted_s = _now_s()
            if wanted.again_s:
                await asyncio.sleep(wanted.again_s)
                await _keep(world, wanted.successor, all_made)


async def _until(moment_s: float) -> None:
    await asyncio.sleep(max(0.0, moment_s - _now_s()))


async def _changed(world: World, name: str, change: Any) -> bool:
    """Change a schedule; False if it is there no more, or cannot be changed so."""
    try:
        await _asked(world, lambda client: client.change(USER, name, change))
    except ScheduleNotFoundError:
        return False
    except RaygroveError:
        return False
    return True


async def _asked(world: World, ask: Any) -> Any:
    """What a driver is told. A store that was away for long is asked again, and a driver that was lost is replaced."""
    while True:
        driver = Driver(world)
        client = ScheduleClient(driver.rt._client.engine.session, APP)
        try:
            told = await unless_lost(driver, ask(client))
            if not driver.is_dead:
                return told
        except RaygroveError as error:
            if "Store" not in type(error).__name__:
                raise
        await asyncio.sleep(1.0)


async def _clear_session(world: World, given: Clear) -> None:
    """Take back the first turn of a session that ends from a time on, or delete the session."""
    await asyncio.sleep(given.from_s)
    over = {turn for turn, row in world.disk.turns.items() if row.status != "running"}
    for _ in range(LOOKS):
        await asyncio.sleep(LOOK_S)
        ended = [
            row.invocation_id
            for turn, row in world.disk.turns.items()
            if turn not in over and row.status != "running" and turn[0].session == given.session
        ]
        if ended:
            await _cleared(world, given, ended[0])
            return


async def _cleared(world: World, given: Clear, turn: str) -> None:
    driver = Driver(world)
    sessions = driver.rt.aio.sessions

    async def clear() -> None:
        with suppress(RaygroveError):
            if given.what == "delete":
                await sessions.delete(USER, given.session)
            else:
                await sessions.rewind(USER, given.session, turn)

    await unless_lost(driver, clear())


async def _talk(world: World, after_s: float, session: str) -> None:
    await asyncio.sleep(after_s)
    driver = Driver(world)

    async def run() -> None:
        try:
            await driver.rt.run(user_id=USER, session_id=session, message="hi")
        except RaygroveError:
            # The store may be away for long.
            return

    await unless_lost(driver, run())


def problems(given: Timetable, left: Timed) -> list[str]:
    """Each due time makes one turn at most, none is forgotten, and none is made that may not be."""
    found = list[str]()
    if left.open_turns:
        found.append(f"turns are open at the end: {left.open_turns}")
    for made in left.made:
        messages = [event for event in left.messages[made.wanted.session] if _is_of(made, event)]
        found += [f"{made.wanted.name}: {each}" for each in _of_schedule(given, made, messages, left)]
    for session, events in left.messages.items():
        here = [made for made in left.made if made.wanted.session == session]
        strays = [event for event in events if _schedule_of(event) and not any(_is_of(made, event) for made in here)]
        found += [f"turn {event.invocation_id} is of no schedule of session {session}" for event in strays]
    return found


def _schedule_of(event: Event) -> str:
    return str((event.custom_metadata or {}).get("schedule", ""))


def _is_of(made: Made, event: Event) -> bool:
    return _schedule_of(event) == made.wanted.name and event.invocation_id.startswith(f"{made.id}-")


def _due_s(event: Event) -> int:
    return int(datetime.fromisoformat(str((event.custom_metadata or {})["due"])).timestamp())


def _of_schedule(given: Timetable, made: Made, messages: Sequence[Event], left: Timed) -> Iterator[str]:
    often = Counter(event.invocation_id for event in messages)
    yield from (f"turn {each} has {number} messages" for each, number in often.items() if number > 1)
    due = [_due_s(event) for event in messages]
    yield from (f"due time {each} makes {number} turns" for each, number in Counter(due).items() if number > 1)
    yield from (f"due time {later} makes its turn after {earlier}" for earlier, later in pairwise(due) if later < earlier)
    yield from (f"due time {each} is none" for each in due if not _is_due(made, each))
    for event in messages:
        begun_s = left.begun_s[event.id]
        if event.timestamp < _due_s(event):
            yield f"due time {_due_s(event)} makes its turn {_due_s(event) - event.timestamp:.3f} s too early"
        if made.deleted_s and begun_s > made.deleted_s:
            yield f"due time {_due_s(event)} makes its turn after the schedule was deleted"
        if any(since < begun_s < until for since, until in made.pauses):
            yield f"due time {_due_s(event)} makes its turn while the schedule is paused"
    if made.row is not None and made.row.id == made.id and (made.row.turns, made.row.last_s) != (len(due), max(due, default=0)):
        yield f"it counts {made.row.turns} turns, the newest for {made.row.last_s}: the log has {due}"
    if made.created_s and made.wanted.is_left_alone:
        yield from _forgotten(given, made, due, left.ended_s)


def _is_due(made: Made, due_s: int) -> bool:
    return not made.wanted.every_s or (due_s - made.start_s) % made.wanted.every_s == 0


def _forgotten(given: Timetable, made: Made, due: Sequence[int], ended_s: float) -> Iterator[str]:
    """What is due makes its turn, or was missed by a policy that makes none."""
    wanted = made.wanted
    if not wanted.every_s:
        if not due and wanted.missed != "skip":
            yield "its only due time makes no turn"
        return
    last_s = int(ended_s - SETTLE_S)
    if max(due, default=0) < last_s - wanted.every_s and not _is_held_up(given, made):
        yield f"its newest turn is for {max(due, default=0)}, and turns were due until {last_s}"
    is_undisturbed = not given.plan.faults and not _is_held_up(given, made)
    # A turn that is about to begin when its session is deleted does not.
    is_deleted = any(each.session == wanted.session and each.what == "delete" for each in given.clears)
    if (wanted.missed == "all" or is_undisturbed) and not is_deleted:
        first_s = made.start_s + wanted.every_s
        lacks = sorted({*range(first_s, max(due, default=0), wanted.every_s)} - {*due})
        if lacks:
            yield f"due times {lacks} make no turns"


def _is_held_up(given: Timetable, made: Made) -> bool:
    """Its session may be busy for as long as the timetable lasts."""
    of_session = sum(each.session == made.wanted.session for each in given.wanted)
    return of_session > 1 or given.thinks_s > 1 or bool(given.talks)
