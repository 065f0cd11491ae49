"""All actors of a deployment in one simulated cluster, and what goes wrong in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from actors import BaseAgent
from actors.agent.environment import AgentEnvironment
from actors.definitions.spec import AgentSpec
from actors.interfaces.access import BackgroundAccess
from actors.interfaces.clock import Clock
from actors.layers.background.client import SessionRuns
from actors.layers.flows.definitions.flow import FlowPlans
from actors.layers.interceptors import INTERCEPTORS
from actors.layers.kinds import agent_actor
from actors.layers.services import runner_actor, session_actor
from actors.layers.toolsets import OpenToolsets
from actors.layers.trees.tree import AgentTree
from actors.messages import event as event_module
from actors.messages.codec import encode
from actors.messages.config import DEFAULT_LIMITS, Limits
from actors.messages.protocol.base import ErrorReply
from actors.messages.protocol.turns import RecoverTurns
from actors.refs import RunnerRef, SessionRef
from actors.runner.environment import RunnerEnvironment
from actors.session.environment import SessionEnvironment
from runtime.cluster.core.core_host import RECOVERY
from runtime.cluster.rules.standby import next_term
from runtime.engine.deployment import Deployment, FlowRegistry, plans_of
from runtime.settings import Settings
from tests.simulation.agents import model_of
from tests.simulation.cluster import Handle, HostProcess, Sent, SimDirectory, Trace, Wires
from tests.simulation.drivers import APP, Driver
from tests.simulation.faults import COMMIT, FaultPlan, Phase, are_at_store
from tests.simulation.firing import Firing
from tests.simulation.promises import Promises
from tests.simulation.stores import Disk, DiskStore, StoreCalls, called_on_the_loop
from tests.simulation.virtual_loop import SimProcess, VirtualLoop, outside
from tests.support.any_message import decode_message
from tests.support.vectors.vector_agents import FailingArtifactStore

SETTINGS = Settings(results_wait_s=DEFAULT_LIMITS.results_wait_s)
OPENED_AT_ONCE = 64
"""Turns that a Runner opens at the same time."""
NOTICED_S = 0.05
"""The longest time until a process that stands by notices that the one that leads is gone."""

EPOCH_S = 1_700_000_000.0
"""Wall time when the loop's time is 0."""

DAY_S = 86_400.0

BEHIND_S = 5.0
"""How far the clock of a machine may be behind that of another."""


def wall_s(loop: VirtualLoop) -> float:
    """The wall time, in seconds since the epoch."""
    return EPOCH_S + loop.days_passed_s + loop.time()


def pass_midnight(loop: VirtualLoop) -> None:
    """Have the wall clock come to the beginning of the next day, by UTC. No timer runs meanwhile."""
    loop.days_passed_s += DAY_S - wall_s(loop) % DAY_S


class _LoopClock:
    """Implements `Clock`: supervisors wait in virtual time."""

    def now_s(self) -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return wall_s(loop)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@contextmanager
def seeded(loop: VirtualLoop, seed: int) -> Iterator[StoreCalls]:
    """Inside the block ids, time and the store's thread are the simulation's."""
    ids = random.Random(f"ids {seed}")
    clock = SimpleNamespace(time=lambda: wall_s(loop))
    with ExitStack() as patches:
        patches.enter_context(mock.patch.multiple("os", urandom=ids.randbytes, getpid=lambda: 1))
        patches.enter_context(mock.patch("actors.messages.event._left", []))
        patches.enter_context(mock.patch.object(event_module, "time", clock))
        yield patches.enter_context(called_on_the_loop(loop, seed))


class World:
    """The Session actor, the Runner, agents' processes and drivers.

    Args:
        deployment: what runs.
        plan: what goes wrong.
        seed: decides everything else.
        groups: agents live in so many processes of a Runner; 0: each has one of its own.
        limits: of the Runner.
        opens: turns that the Runner opens at the same time, and while more users wait; None: OPENED_AT_ONCE.

    Attributes:
        faults: has the faults of the plan come.
        store_timeout_s: see FaultPlan.
        settings: as drivers know them.
        promises: what replies of Session actors have promised, and did not hold.
        runner: the process that leads, where the Runner has two.
        standby: the one that stands by; None: there is none now.
        limiter: the process of the actor that limits models; None: no model is limited.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        deployment: Deployment,
        plan: FaultPlan,
        calls: StoreCalls,
        seed: int,
        groups: int = 0,
        *,
        limits: Limits = DEFAULT_LIMITS,
        opens: tuple[int, int] | None = None,
    ) -> None:
        self.loop = loop
        self.trace = Trace()
        self.disk = Disk(loop)
        self.calls = calls
        self.calls.most_s = loop.history.store_s = plan.store_s
        self.promises = Promises(self.disk, self._may_lose_ends)
        self.plans = FlowRegistry(plans_of(deployment.tree))
        self.drivers: list[Driver] = []
        self._deployment = deployment
        self.store_timeout_s = plan.store_timeout_s
        self._groups = groups
        self._limits = limits
        self.settings = SETTINGS.model_copy(update={"max_waiting_turns": limits.max_waiting_turns})
        self._opens = opens or (OPENED_AT_ONCE, 0)
        self._random = random.Random(f"world {seed}")
        self._wires = Wires(loop, self.trace, plan.network)
        self.faults = Firing(self, list(plan.faults))
        self._wires.on_sent, self._wires.on_handled = self._on_sent, self._on_handled
        self._wires.on_lost = self.faults.unnoticed_s
        self.disk.on_commit = self._on_commit
        self._incarnations = 0
        self.session: HostProcess | None = None
        self.runner: HostProcess | None = None
        self.standby: HostProcess | None = None
        self.limiter: HostProcess | None = None
        self._has_standby = plan.has_standby
        self._term = 0
        self._outlived: HostProcess | None = None

    @property
    def directory(self) -> SimDirectory | None:
        """That of the Runner."""
        return self.runner.directory if self.runner is not None else None

    @property
    def wires(self) -> Wires:
        """The messages between processes."""
        return self._wires

    def start(self) -> None:
        """Start the Session actor and the Runner."""
        self._start_session()
        self._start_runner()
        if self._has_standby:
            self._start_standby()
        self.faults.begin()

    def session_options(self) -> dict[str, Any]:
        """What a Session actor is given beside the tree with which the deployment was started."""
        return {}

    def runner_options(self, directory: SimDirectory) -> dict[str, Any]:
        """What a Runner is given beside that tree."""
        return {}

    def spec(self, agent: str) -> AgentSpec:
        """What the actor of an agent is given. `agent`: its address."""
        return self._deployment.tree.spec(agent)

    def session_ref(self, sender: SimProcess | None) -> SessionRef:
        """A client of the Session actor for a process."""
        return SessionRef(Handle(self._wires, sender, lambda: self.session, can_restart=True).link("the Session actor"))

    def driver(self) -> Driver:
        """Another program."""
        return Driver(self)

    def runner_handle(self, sender: SimProcess | None) -> Handle:
        """A handle of the Runner for a process."""
        return Handle(self._wires, sender, lambda: self.runner, can_restart=True)

    def _process(self, name: str, *, can_restart: bool = False) -> HostProcess:
        self._incarnations += 1
        return HostProcess(f"{name}#{self._incarnations}", can_restart=can_restart)

    def _start_session(self) -> None:
        process = self.session = self._process("session", can_restart=True)
        store = cast(Any, DiskStore(self.disk, process))
        environment = SessionEnvironment(
            store,
            self._deployment.tree.topology,
            store_timeout_s=self.store_timeout_s,
            writer="session",
            on_replaced=lambda: outside(self.kill, process),
            version=self._deployment.tree.version.id,
        )
        process.actors[""] = process.run(lambda: session_actor(environment, **self.session_options()))
        self.trace.add(self.loop.time(), f"{process.name} starts")

    def replace_session(self, lives_s: float) -> None:
        """Start another Session actor beside the one that lives, which goes on with what it was asked for a while."""
        old = self.session
        if old is None or old.is_dead:
            return
        self._outlived = old
        self.loop.history.lose(old.name)
        self.trace.add(self.loop.time(), f"{old.name} is given up")
        self._start_session()
        outside(self.loop.call_later, lives_s, self.kill, old)

    def replace_runner(self, lives_s: float) -> None:
        """Have the standby of a Runner take its place, which goes on with what it was asked for a while."""
        old = self.runner
        if old is None or old.is_dead:
            return
        self.loop.history.lose(old.name)
        self.trace.add(self.loop.time(), f"{old.name} is given up")
        self._lead_soon()
        outside(self.loop.call_later, lives_s, self.kill, old)

    def _may_lose_ends(self) -> bool:
        """The store has failed, or a connection broke: a request to resume a turn, sent once more, may have taken it away."""
        fired = self.faults.fired
        return are_at_store(fired) or any(fault.what == "break" for _, fault in fired)

    def _give_up(self, process: HostProcess) -> None:
        """What a Runner does that learns that its standby has its place."""
        self.promises.note_end(process, leads=process is self.runner and self.standby is None)
        outside(self.kill, process)

    def _lead_soon(self) -> None:
        """The standby, if there is one, learns that the process that leads is gone."""
        if self.standby is not None:
            outside(self.loop.call_later, self._random.uniform(0, NOTICED_S), self._lead, self.standby)

    def _lead(self, process: HostProcess) -> None:
        if process is not self.standby or process.is_dead:
            return
        self.runner, self.standby = process, None
        self.trace.add(self.loop.time(), f"{process.name} takes the place")
        process.spawn(self._recover(process, self._next_term()))

    def _next_term(self) -> int:
        self._term = next_term(self._term, int(self.loop.time() * 1_000), is_first=bool(self._term % 2))
        return self._term

    def _start_standby(self) -> None:
        self.standby = self._runner_process(is_restarted=True)

    def _start_runner(self) -> None:
        self.runner = self._runner_process(term=self._next_term() if self._has_standby else 0)

    def _runner_process(self, *, term: int = 0, is_restarted: bool = False) -> HostProcess:
        process = self._process("runner", can_restart=True)
        directory = process.directory = self._directory(process)
        environment = RunnerEnvironment(
            self.session_ref(process),
            directory,
            FailingArtifactStore(),
            self._deployment.tree.plugins,
            limits=self._limits,
            version=self._deployment.tree.version.id,
            turns_opened_at_once=self._opens[0],
            turns_of_many_opened_at_once=self._opens[1],
            term=term,
            is_restarted=is_restarted,
            on_replaced=partial(self._give_up, process) if self._has_standby else None,
        )
        process.actors[""] = process.run(lambda: runner_actor(environment, app=APP, **self.runner_options(directory)))
        self.trace.add(self.loop.time(), f"{process.name} starts")
        return process

    def _directory(self, process: HostProcess) -> SimDirectory:
        return SimDirectory(partial(self._start_agent, process), self._kill_soon, self._wires, process)

    async def _recover(self, process: HostProcess, term: int = 0) -> None:
        """What a Runner's host does after it was restarted: it sends its Runner a message until that replies."""
        raw = encode(RecoverTurns(term=term))
        handle = Handle(self._wires, process, lambda: process, can_restart=True)
        asked: set[asyncio.Future[bytes]] = set()
        for attempt in count(1):
            pause_s = RECOVERY.after_attempts(attempt)
            asked.add(handle.remote(raw))
            replies, asked = await asyncio.wait(asked, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            if any(each.exception() is None and not isinstance(decode_message(each.result()), ErrorReply) for each in replies):
                break
            if replies:
                await asyncio.sleep(pause_s)
        for each in asked:
            # A reference of Ray may be dropped before there is a reply; a future complains when its error is not retrieved.
            each.cancel()

    async def _start_agent(self, runner: HostProcess, agent: str, alone: bool) -> HostProcess:
        directory = runner.directory
        assert directory is not None
        await asyncio.sleep(self._random.uniform(0, 0.01))
        name = f"agent {agent}" if alone or not self._groups else f"group {sum(agent.encode()) % self._groups}"
        for process in directory.processes() if self._groups and not alone else ():
            if process.name.startswith(f"{name}#") and not process.is_dead and not process.is_forgotten:
                break
        else:
            process = self._process(name)
            process.runner = runner
            process.environment = self._environment(process, runner)  # type: ignore[attr-defined]
        spec = self.spec(agent)
        process.actors[agent] = process.run(agent_actor, spec, process.environment)  # type: ignore[attr-defined]
        return process

    def _environment(self, process: HostProcess, runner: HostProcess) -> AgentEnvironment:
        handle = Handle(self._wires, process, lambda: runner, can_restart=False)
        clock: Clock = _LoopClock()
        session = self.session_ref(process)
        return AgentEnvironment(
            session,
            RunnerRef(handle.link("the Runner")),
            FailingArtifactStore(),
            model_of,
            means={
                FlowPlans: lambda _: FlowPlans(self.plans.find),
                SessionRuns: lambda key: SessionRuns(session, key, clock),
                BackgroundAccess: lambda key: SessionRuns(session, key, clock),
            },
            clock=clock,
            toolsets=OpenToolsets(),
            interceptors=INTERCEPTORS,
        )

    def _kill_soon(self, process: HostProcess) -> None:
        """What the Runner asks for: until then the process may still write."""
        outside(self.loop.call_later, self._random.choice([0.0, 0.01, 0.3]), self.kill, process)

    def kill(self, process: HostProcess | SimProcess, away_s: float = 0.0) -> None:
        """Kill a process; the Session actor and the Runner are started again `away_s` seconds later."""
        if process.is_dead:
            return
        process.is_held = process.is_dead = True
        self.loop.history.lose(process.name)
        self.trace.add(self.loop.time(), f"{process.name} is lost")
        process.note_lost()
        if not isinstance(process, HostProcess):
            return
        self._wires.died(process)
        if process in (self.session, self._outlived):
            self.calls.lose(process)
            self.promises.end_fences()
        if process is self.session:
            outside(self.loop.call_later, away_s, self._start_session)
        elif process.directory is not None:
            for agent in process.directory.processes():
                # Ray ends the processes of a lost owner, but not at once.
                outside(self.loop.call_later, self._random.uniform(0, 0.5), self.kill, agent)
            self._replace_lost(process, away_s)

    def _replace_lost(self, process: HostProcess, away_s: float) -> None:
        """A process of the Runner is lost: Ray starts it again."""
        if process is self.standby:
            self.standby = None
        elif process is self.runner and self.standby is not None:
            self._lead_soon()
        outside(self.loop.call_later, away_s, self._restart_runner)

    def freeze(self, process: SimProcess, seconds: float) -> None:
        """Stop a process for a while."""
        process.is_held = True
        self.trace.add(self.loop.time(), f"{process.name} is stopped")
        outside(self.loop.call_later, seconds, process.go_on)

    def _on_sent(self, sent: Sent) -> float:
        self.promises.note(sent)
        return self.faults.on_sent(sent)

    def _on_handled(self, sent: Sent, raw: bytes) -> bool:
        self.promises.check(sent, raw)
        return self.faults.on_handled(sent)

    def _on_commit(self, process: SimProcess, phase: Phase, kinds: Sequence[str]) -> None:
        if phase == "sent":
            self.trace.add(self.loop.time(), f"{process.name} commits, {self.faults.moments.get(COMMIT, 0) + 1}")
        self.faults.moment(COMMIT, process, phase)
        for kind in kinds:
            self.faults.moment(f"{COMMIT} {kind}", process, phase)

    def _restart_runner(self) -> None:
        """Where the Runner has another process that lives, this one stands by; else it leads."""
        if self.standby is not None:
            # That is about to lead.
            outside(self.loop.call_later, NOTICED_S, self._restart_runner)
        elif self._has_standby and self.runner is not None and not self.runner.is_dead:
            self._start_standby()
        else:
            # Nobody tells it the term of the one before, and its machine's clock may be behind the one by which that was given.
            self._term = next_term(0, int((self.loop.time() - self._random.uniform(0, BEHIND_S)) * 1_000), is_first=True)
            self.runner = self._runner_process(term=self._term if self._has_standby else 0, is_restarted=True)
            self.runner.spawn(self._recover(self.runner, self._term if self._has_standby else 0))


def deployment_of(root: BaseAgent) -> Deployment:
    """A deployment of a tree."""
    tree = AgentTree(root, (), SETTINGS.limits)
    return Deployment(app_name=APP, tree=tree, stores=[("sqlite://", None)], artifact_store="memory://sim", settings=SETTINGS)
