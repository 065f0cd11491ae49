"""One simulation: a scenario is played in a world with faults, by drivers that may be lost as well."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from actors import Content, Event
from actors.layers.spending.rules.report import sum_of, sum_of_packed
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore
from tests.model.history import Ask, Found, SessionId, TurnRecord
from tests.model.judge import problems
from tests.simulation.agents import TWICE, build
from tests.simulation.cluster import Trace
from tests.simulation.drivers import APP, Driver
from tests.simulation.faults import CALM, FOLLOWING, Fault, FaultPlan
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.player import SETTLE_S, Player
from tests.simulation.player import Driver as AnyDriver
from tests.simulation.scenarios import Scenario
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import World, deployment_of

LIMIT_S = 900.0
"""Virtual seconds in which a scenario has to be over. Faults last less than one minute."""

KEY, SECOND, FORK = (SessionKey(APP, "ada", session) for session in ("s1", "s2", "s3"))
CASED = SessionKey(APP, "Ada", "s1")
"""The sessions of a player."""
NO_FAULTS = FaultPlan(network=CALM)


class Result(Left):
    """What a simulation has left besides.

    Attributes:
        log: the session's events.
        state: of the session, as the store has it.
        asks: what drivers have asked for, and what came of it.
        found: what is left of each session.
        open_turns: turns that are open in the store at the end.
        begun: how often tools ran, by the id of the call.
        asked: what models were shown, each with its agent.
        messages: how many messages of each class were sent.
        moments: how often each moment came at which faults may come.
        fired: the faults that have happened.
        store_timeout_s: see FaultPlan.
    """

    log: list[Event] = []
    state: dict[str, Any] = {}
    asks: list[Ask] = []
    open_turns: list[str] = []
    turns: dict[str, str] = {}
    begun: Counter[str] = msgspec.field(default_factory=Counter)
    found: dict[SessionId, Found] = {}
    asked: Sequence[tuple[str, Sequence[Content]]] = ()
    messages: dict[str, int] = {}
    moments: dict[str, int] = {}
    fired: list[tuple[float, Fault]] = []
    lasted_s: float = 0.0
    store_timeout_s: float = 0.0


def play(
    scenario: Scenario, plan: FaultPlan = NO_FAULTS, seed: int = 0, kind: type[Simulation] | None = None
) -> tuple[Result, Trace]:
    """Play a scenario.

    Args:
        seed: decides about ids, and about times that no fault decides about.
        kind: another kind of simulation.
    """
    result = Result()
    made = kind or Simulation
    in_virtual_time(result, seed, lambda loop, calls: made(loop, scenario, plan, calls, seed, result).run(), 3 * LIMIT_S)
    return result, result.trace


class Simulation(Player):
    """Plays a scenario in a world. `keys`: of the sessions that are looked at."""

    keys: ClassVar[Sequence[SessionKey]] = (KEY, SECOND, FORK, CASED)

    def __init__(self, loop: VirtualLoop, scenario: Scenario, plan: FaultPlan, calls: Any, seed: int, result: Result) -> None:
        super().__init__(scenario)
        self._loop = loop
        self._result = result
        opens = (scenario.opened_at_once, 0) if scenario.opened_at_once else None
        self.world = World(loop, deployment_of(build(scenario.root)), plan, calls, seed, scenario.groups, opens=opens)
        result.trace = self.world.trace

    def driver(self) -> Driver:
        """A program of its own for each request."""
        return Driver(self.world)

    def asks(self, driver: AnyDriver) -> Sequence[Ask]:
        """The history has them."""
        return [ask for ask in self._loop.history.asks if ask.program == driver.name]

    def note_followed(self, driver: AnyDriver) -> None:
        """The one that is followed may be lost."""
        assert isinstance(driver, Driver)
        self.world.faults.moment(FOLLOWING, driver, "sent")

    async def run(self) -> None:
        """Play all turns, wait for the end of the faults, and look at what is left."""
        result, world = self._result, self.world
        world.start()
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.play()
                await self.after_turns()
        except TimeoutError:
            result.problems.append(f"hang: not over after {LIMIT_S:g} s")
        result.lasted_s = self._loop.time()
        await asyncio.sleep(SETTLE_S)
        await self._look()

    async def after_turns(self) -> None:
        """Do what comes after all of them."""

    async def log(self) -> list[Event]:
        return [decode_event(raw, seq) for seq, raw in self.world.disk.store.events(KEY)]

    async def _look(self) -> None:
        """Run one more turn, which has to work, and note what is left."""
        result, world, store, driver = self._result, self.world, self.world.disk.store, Driver(self.world)
        open_before = [row.invocation_id for _, row in store.running(APP)]
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.ask("last", "hi")
                await asyncio.sleep(SETTLE_S)
                statistics = await driver.rt._client.engine.runner.statistics()
                if statistics.counts["running"]:
                    result.problems.append("the Runner runs a turn that is over")
                if statistics.counts["waiting"]:
                    result.problems.append("the Runner counts a turn that waits, and none does")
                await self._get()
        except TimeoutError:
            result.problems.append("hang: the next turn does not end")
        result.open_turns = open_before
        for key in self.keys:
            driver.history.found[key.user, key.session] = found_in(store, key)
        found = driver.history.found[KEY.user, KEY.session]
        result.log, result.state = list(found.log), dict(found.state)
        result.turns = {invocation_id: record.status for invocation_id, record in found.turns.items()}
        result.asks, result.found = driver.history.asks, driver.history.found
        result.begun, result.asked = driver.history.begun, driver.history.asked
        result.messages, result.moments = dict(world.wires.counts), dict(world.faults.moments)
        result.fired = world.faults.fired
        world.promises.end_fences()
        result.problems += world.promises.broken
        result.problems += [f"call {each} was repeated while it was under way" for each in TWICE]
        result.store_timeout_s = world.store_timeout_s
        result.problems += problems(driver.history)

    async def _get(self) -> None:
        """Read the session: a driver that is lost is replaced by another, which reads it again."""
        while not (await self._ask(self.driver(), "get")).ended:
            pass


def found_in(store: SqlSessionStore, key: SessionKey) -> Found:
    """What the store has of a session."""
    session = store.session(key)
    if session is None:
        return Found()
    log = [decode_event(raw, seq) for seq, raw in store.events(key)]
    rows = {each: store.turn(key, each) for each in {event.invocation_id for event in log}}
    turns = {
        each: TurnRecord(status=row.status, epoch=row.epoch, used=_used(row.usage))
        for each, row in rows.items()
        if row is not None
    }
    of_app, of_user = store.state(key.app, key.user)
    shared = {f"app:{name}": value for name, value in of_app.items()} | {f"user:{name}": value for name, value in of_user.items()}
    return Found(log=log, state={**session.state, **shared}, turns=turns, written_s=session.updated_s)


def _used(usage: bytes) -> dict[str, int] | None:
    return sum_of(sum_of_packed([usage]).values())._asdict() if usage else None
