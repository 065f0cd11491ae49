"""Plays errands: programs ask for turns, cancel and steer runs, and answer those that wait, until nothing is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from actors import RunConfig
from actors.errors import RaygroveError
from actors.layers.background.messages import RunsReply, StartRun
from actors.layers.schedules.messages import WatchSchedules
from actors.layers.stores.schedule import ScheduleRow
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from actors.messages.turn_info import BackgroundRun
from tests.simulation.background.check import problems
from tests.simulation.background.errands import Errands, Nudge
from tests.simulation.background.staff import HEARINGS, LAST, staff
from tests.simulation.cluster import Sent
from tests.simulation.drivers import APP, Driver, unless_lost
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.player import SETTLE_S
from tests.simulation.programs import Wish, grant, judge, until_known
from tests.simulation.steering.talk import Said
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import World, deployment_of
from tests.support.any_message import decode_message

USER = "ada"

LOOK_S = 2.0
"""Between two looks at what is under way."""

LOOKS = 200
"""After so many something never ends."""


class Ran(Left):
    """What errands leave besides.

    Attributes:
        messages, moments: see `Result`.
        runs: that were started, as their records say at last.
    """

    messages: dict[str, int] = {}
    moments: dict[str, int] = {}
    runs: list[BackgroundRun] = []


class Office(World):
    """A world that knows what Session actors have acknowledged.

    Attributes:
        started: runs.
        sent: the ids of messages of agents, with the session.
    """

    started: set[str]
    sent: dict[str, str]

    def start(self) -> None:
        self.started, self.sent = set(), {}
        super().start()

    def _on_handled(self, sent: Sent, raw: bytes) -> bool:
        arrives = super()._on_handled(sent, raw)
        if sent.kind in ("StartRun", "SendMessage"):
            message, reply = decode_message(sent.raw), decode_message(raw)
            match message, reply:
                case StartRun(), RunsReply():
                    self.started.add(message.run)
                case p.SendMessage(), p.Ack():
                    self.sent[message.id] = message.turn.key.session
        return arrives

    def rows(self) -> list[ScheduleRow]:
        """What is stored of runs, and of messages that wait."""
        return list(self.disk.store.schedules(APP, USER, limit=None))

    def runs(self) -> list[BackgroundRun]:
        """The runs, as they are stored."""
        return [row.plan.run.run for row in self.rows() if row.plan.run is not None]

    def is_at_work(self) -> bool:
        """Something is under way, or due, or waits for an answer."""
        is_due = any(row.due_s is not None for row in self.rows())
        return is_due or bool(self.disk.store.running(APP)) or not all(run.is_over for run in self.runs())


def play(given: Errands, seed: int) -> Ran:
    left = Ran()
    HEARINGS.clear()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = Office(loop, deployment_of(staff(given)), given.plan, calls, seed, given.groups)
        left.trace = world.trace
        world.start()
        await _asked(world, lambda driver: driver.rt._client.engine.runner.ask(WatchSchedules()))
        answering = asyncio.create_task(_answer_all(world))
        programs = {said.program: world.driver() for said in given.said if said.program}
        await asyncio.gather(
            *(_say(world, said, programs) for said in given.said), *(_nudge(world, each) for each in given.nudges)
        )
        await asyncio.sleep(SETTLE_S)
        await _until_idle(world)
        for session in sorted({said.session for said in given.said}):
            await _read_all(world, session)
        await _until_idle(world)
        answering.cancel()
        left.messages, left.moments = dict(world.wires.counts), dict(world.faults.moments)
        left.runs = world.runs()
        judge(world, left)
        left.problems += problems(world)

    return in_virtual_time(left, seed, meet)


async def _asked(world: World, ask: Callable[[Driver], Awaitable[Any]]) -> None:
    """Have a program ask for something. One that is lost is replaced."""
    while True:
        driver = world.driver()

        async def work(asks: Driver = driver) -> None:
            with suppress(RaygroveError):
                await ask(asks)

        await unless_lost(driver, work())
        if not driver.is_dead:
            return


async def _say(world: World, said: Said, programs: dict[int, Driver]) -> None:
    config = RunConfig(max_transfers=20, on_concurrent_turn="steer" if said.steers else "enqueue")
    await grant(world, said, said.text, programs.get(said.program), config=config)


async def _read_all(world: World, session: str) -> None:
    """Have a turn read what waits in a session. One that fails, by the store, is followed by another."""
    for number in range(LOOKS):
        last = Wish(turn=f"last-{session}-{number}", session=session)
        config = RunConfig(max_transfers=20, agent="chief")
        if (await until_known(world, last, LAST, config=config)).ended == "Finished":
            return
        await asyncio.sleep(LOOK_S)


async def _nudge(world: Office, nudge: Nudge) -> None:
    await asyncio.sleep(nudge.at_s)
    runs = [run for run in world.runs() if run.session_id.startswith(nudge.session)]
    if nudge.nth < len(runs):
        run = runs[nudge.nth]
        if nudge.does == "cancel":
            await _asked(world, lambda driver: driver.rt.aio.background.cancel(USER, run.session_id, run.id))
        else:
            await _asked(world, lambda driver: driver.rt.aio.background.steer(USER, run.session_id, run.id, "mind me"))


async def _answer_all(world: Office) -> None:
    """Answer the calls at which runs wait for the user."""
    while True:
        await asyncio.sleep(LOOK_S)
        for session in [run.run_session_id for run in world.runs() if run.status == "waiting"]:
            for call in _open_calls(world, session):
                await _asked(world, partial(_answer, session=session, call=call))


async def _answer(driver: Driver, session: str, call: str) -> None:
    await driver.rt.answer(call, {"answer": "yes"}, user_id=USER, session_id=session)


def _open_calls(world: Office, session: str) -> list[str]:
    log = [decode_event(raw, seq) for seq, raw in world.disk.store.events(SessionKey(APP, USER, session))]
    answered = {response.id for event in log if event.author == "user" for response in event.function_responses()}
    return [call for event in log for call in event.long_running_tool_ids if call not in answered]


async def _until_idle(world: Office) -> None:
    for _ in range(LOOKS):
        if not world.is_at_work():
            break
        await asyncio.sleep(LOOK_S)
    await asyncio.sleep(LOOK_S)
