"""A simulated cluster with the actor that limits models, and what is seen of permits in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from actors.agent.environment import AgentEnvironment
from actors.layers.interceptors import interceptors
from actors.layers.limiter.actor import LimiterActor
from actors.layers.limiter.client import LimiterClient
from actors.layers.limiter.limits import ModelLimits
from actors.refs import Ref
from runtime.engine.deployment import Deployment
from tests.simulation.cluster import Handle, HostProcess
from tests.simulation.drivers import Driver
from tests.simulation.faults import FaultPlan
from tests.simulation.limits.traffic import Traffic
from tests.simulation.virtual_loop import SimProcess, VirtualLoop, outside
from tests.simulation.world import World

Kept = Mapping[str, ModelLimits]


class Life(msgspec.Struct):
    """A process of the actor that limits models, and when it lived."""

    name: str
    begun_s: float
    ended_s: float = float("inf")


class SimKeptLimits:
    """Implements `KeptLimits`: what no process is lost with. `history`: what was kept, and when."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.history: list[tuple[float, Kept]] = [(loop.time(), {})]

    def read(self) -> Kept:
        return self.history[-1][1]

    def keep(self, changed: Kept) -> None:
        """Keep changes."""
        self.history.append((self._loop.time(), changed))


class LimitedWorld(World):
    """The world of a deployment whose models are limited.

    Attributes:
        limiter: the process of the actor that limits models.
        lives: its processes so far.
        kept: the changed limits.
        frozen: processes that were stopped, by name, from when until when.
        died_s: when processes were lost, by name.
        clients: of all processes of agents so far.
    """

    def __init__(self, loop: VirtualLoop, deployment: Deployment, given: Traffic, plan: FaultPlan, calls: Any, seed: int) -> None:
        super().__init__(loop, deployment, plan, calls, seed, given.groups)
        self._given = given
        self._chance = random.Random(f"limiter {seed}")
        self.kept = SimKeptLimits(loop)
        self.lives: list[Life] = []
        self.frozen: list[tuple[str, float, float]] = []
        self.died_s: dict[str, float] = {}
        self.clients: list[tuple[HostProcess, LimiterClient]] = []

    def start(self) -> None:
        self._start_limiter()
        super().start()

    def _start_limiter(self) -> None:
        process = self.limiter = self._process("limiter", can_restart=True)
        # Each machine's clock begins when that was started.
        began_s, loop = self._chance.uniform(0, 10_000_000), self.loop
        process.actors[""] = process.run(
            lambda: LimiterActor(
                self._given.limits,
                clock=lambda: began_s + loop.time(),
                chance=self._chance.random,
                user_weights=self._given.weights,
                changes=self.kept,
            )
        )
        self.lives.append(Life(process.name, loop.time()))
        self.trace.add(loop.time(), f"{process.name} starts")

    def limiter_ref(self, sender: SimProcess) -> Ref:
        """A client of the actor for a process."""
        return Ref(Handle(self._wires, sender, lambda: self.limiter, can_restart=True).link("the limiter"))

    def driver(self) -> Driver:
        """Another program, which knows that actor."""
        driver = Driver(self)
        engine: Any = driver.rt._client.engine
        engine.limiter = self.limiter_ref(driver)
        return driver

    def kill(self, process: HostProcess | SimProcess, away_s: float = 0.0) -> None:
        """Kill a process; the actor that limits models is started again, too."""
        if process.is_dead:
            return
        super().kill(process, away_s)
        self.died_s[process.name] = self.loop.time()
        if process is self.limiter:
            self.lives[-1].ended_s = self.loop.time()
            outside(self.loop.call_later, away_s, self._start_limiter)

    def freeze(self, process: SimProcess, seconds: float) -> None:
        """Stop a process for a while."""
        now_s = self.loop.time()
        self.frozen.append((process.name, now_s, now_s + seconds))
        super().freeze(process, seconds)

    def _environment(self, process: HostProcess, runner: HostProcess) -> AgentEnvironment:
        made = process.run(lambda: LimiterClient(self.limiter_ref(process), self._given.limits))
        self.clients.append((process, made))
        return replace(super()._environment(process, runner), interceptors=interceptors(made))

    @property
    def actor(self) -> LimiterActor | None:
        """The actor that limits models, while it runs."""
        process = self.limiter
        if process is None or process.is_held:
            return None
        actor = process.actors[""]
        assert isinstance(actor, LimiterActor)
        return actor


def now_s() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()
