"""A simulation with budgets: users answer the questions that these ask, and go on in other sessions, forks and rewound ones."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from actors import Budget, Event, RunConfig
from actors.errors import RaygroveError
from actors.layers.spending.messages import UsageReport
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from actors.rules.checks.questions import scope_of
from tests.simulation.agents import OtherModel
from tests.simulation.cluster import Trace
from tests.simulation.drivers import APP, Driver
from tests.simulation.faults import FaultPlan
from tests.simulation.play import KEY, NO_FAULTS, Result, Simulation, play
from tests.simulation.scenarios import Act, Scenario
from tests.simulation.world import pass_midnight

BESIDE, FORK = SessionKey(APP, "ada", "s2"), SessionKey(APP, "ada", "s3")
"""A session of the user's whose turns run at the same time, and the copy of the first one."""


class Spent(msgspec.Struct):
    """What a simulation with budgets has left besides.

    Attributes:
        result: see there; its log has the events that were rewound, too.
        others: the logs of the other sessions, without what a fork has copied.
        ended: how turns of those have ended, for the driver that asked for them last.
        report: what the user has used, by agent, as a driver was told; None: that failed.
        is_rewound: events of the log were taken back.
    """

    result: Result
    others: dict[str, list[Event]]
    ended: dict[str, str]
    report: UsageReport | None
    is_rewound: bool


class SpendingSimulation(Simulation):
    """Plays a scenario with a budget."""

    keys: ClassVar[Sequence[SessionKey]] = (KEY, BESIDE, FORK)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ended: dict[str, str] = {}
        self.before: list[Event] = []
        self.copied: set[str] = set()
        self.others: dict[str, list[Event]] = {}
        self.report: UsageReport | None = None
        self._said: dict[str, dict[str, Any]] = {}
        LAST.append(self)

    def config(self, **more: Any) -> RunConfig:
        given = self._scenario
        what: dict[str, Any] = {"model": OtherModel.name} if given.at_limit == "model" else {"at_limit": given.at_limit}
        budget = Budget(llm_calls=given.llm_calls, **what)
        more[given.budget] = {given.agent: budget} if given.agent else budget
        return super().config(**more)

    def said(self, call_id: str, *, yes: bool) -> dict[str, Any]:
        """Of a budget as much again as it has, some more, or no."""
        if not scope_of(call_id):
            return super().said(call_id, yes=yes)
        if not yes:
            return {"confirmed": False}
        if call_id not in self._said:
            chance = random.Random(f"answer {self._scenario.llm_calls} {len(self._said)}")
            more = {"confirmed": True, "payload": {"llm_calls": chance.randint(1, 3)}}
            self._said[call_id] = chance.choice([{"confirmed": True}, more, more, {"confirmed": False}])
        return self._said[call_id]

    async def before_turn(self, number: int) -> None:
        """A new day begins."""
        if number and number == self._scenario.midnight:
            pass_midnight(self._loop)

    async def _act(self, act: Act, invocation_id: str) -> None:
        if act.deed not in ("midnight", "beside"):
            await super()._act(act, invocation_id)
            return
        await asyncio.sleep(act.after_s)
        if act.deed == "midnight":
            pass_midnight(self._loop)
        else:
            await self._elsewhere(BESIDE, f"{invocation_id}-beside")

    async def after_turns(self) -> None:
        """Copy the session, or take it back to its beginning."""
        if self._scenario.then == "fork":
            self.copied = {event.id for event in await self.log()}
            await self._change("fork", "turn-0", FORK.session)
            await self._elsewhere(FORK, "forked")
        elif self._scenario.then == "rewind":
            await asyncio.sleep(1)
            log = await self.log()
            if await self._change("rewind", "turn-0"):
                self.before = log

    async def _change(self, what: str, *args: str) -> bool:
        """Have a session changed by a driver. False if that failed, or is not known, since the driver was lost."""
        given = {"fork_id": args[1]} if what == "fork" else {}
        return (await self._ask(self.driver(), what, turn=args[0], given=given)).kind == "done"

    async def _elsewhere(self, key: SessionKey, invocation_id: str) -> None:
        """Run a turn of another session until a driver knows how it ended."""
        while not self.ended.get(invocation_id):
            driver = Driver(self.world)
            asked = {"session_id": key.session, "invocation_id": invocation_id, "message": "hi", "run_config": self.config()}
            reading = driver.spawn(_ended(driver, asked))
            gone = asyncio.create_task(driver.gone.wait())
            await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if reading.done():
                self.ended[invocation_id] = reading.result()

    async def _look(self) -> None:
        await super()._look()
        store = self.world.disk.store
        for key in (BESIDE, FORK):
            log = [decode_event(raw, seq) for seq, raw in store.events(key)]
            self.others[key.session] = [event for event in log if event.id not in self.copied]
            for call in (call for event in self.others[key.session] for call in event.function_calls()):
                self._result.begun.pop(call.id or "", None)
        after = {event.id for event in self._result.log}
        rewound = [event for event in self.before if event.id not in after]
        self._result.log = sorted([*rewound, *self._result.log], key=lambda event: event.seq)
        driver = Driver(self.world)
        try:
            self.report = await driver.spawn(driver.rt.aio.usage("ada", by="agent"))
        except RaygroveError:
            self.report = None


LAST: list[SpendingSimulation] = []
"""The simulation that runs now."""


def spend(scenario: Scenario, plan: FaultPlan = NO_FAULTS, seed: int = 0) -> tuple[Spent, Trace]:
    """Play a scenario with a budget."""
    LAST.clear()
    result, trace = play(scenario, plan, seed, SpendingSimulation)
    [played] = LAST
    LAST.clear()
    return Spent(result, played.others, played.ended, played.report, bool(played.before)), trace


async def _ended(driver: Driver, asked: dict[str, Any]) -> str:
    try:
        return type((await driver.rt.run(user_id=KEY.user, **asked)).outcome).__name__
    except RaygroveError as error:
        return type(error).__name__
