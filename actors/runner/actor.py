"""The Runner actor: it selects the agent of every turn and routes `transfer_to_agent` between agents.

It sees no event but the user's. It sends `Invoke` to one agent after the other and awaits their outcomes; supervisors ask it to
run their children, so the way in which an agent is run, repeated and fenced stands in one place: `invoker.py`.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter

import msgspec

from actors.actor import Actor, Handlers, with_services
from actors.errors import ActorLostError, FencedError, LlmCallsLimitExceededError, RaygroveError
from actors.errors.user_code import is_being_cancelled
from actors.interfaces.transport import Link
from actors.messages import protocol as p
from actors.messages.session import ONLY_SHARD, Shard
from actors.refs import AgentRef
from actors.rules.routing.branches import is_below_branch
from actors.runner.admission import TurnAdmission
from actors.runner.environment import RunnerEnvironment, RunnerPlace
from actors.runner.invoker import Isolation, RunnerEvents
from actors.runner.recovery import TurnResumer
from actors.runner.running_turn import Run, RunningTurn
from actors.runner.service import RunnerParts, RunnerServices, no_services
from actors.runner.start import TurnStarter, UserMessages
from actors.runner.turns import MakeSpans, TurnTable, TurnTasks
from actors.runner.versions import MakeHooks, TurnHooks, TurnVersions

SILENT_S = 2.0
"""How long an agent may take to tell its figures."""

_SILENT = "silent"


class RunnerActor(Actor):
    """Runs the turns of an app, or of a shard of its sessions.

    Args:
        app: the app whose open turns it resumes when its process was lost and started again.
        shard: the sessions whose turns it runs; other Runners run those of the others.
        spans: makes the spans of turns; None: they have none.
    """

    def __init__(
        self,
        environment: RunnerEnvironment,
        name: str = "runner",
        app: str = "",
        shard: Shard = ONLY_SHARD,
        services: RunnerServices = no_services,
        hooks: MakeHooks = TurnHooks,
        spans: MakeSpans | None = None,
    ) -> None:
        session, directory = environment.session, environment.directory
        self._place = place = RunnerPlace(
            f"{name}/{uuid.uuid4().hex}",
            shard,
            environment.term,
            environment.on_replaced,
            is_promoting=environment.is_restarted,
        )
        self._directory = directory
        self._host_limit = environment.host_limit
        self._telemetry = environment.telemetry
        self._counts = Counter(turns=0, invocations=0, transfers=0)
        self._table = table = TurnTable()
        events = RunnerEvents(session)
        isolation = Isolation(lambda: self._recovery.recovered())
        versions = TurnVersions(environment, events, self._counts, isolation, hooks)
        self._requests = AgentRequests(table, versions)
        self._tasks = tasks = TurnTasks(place, session, table, versions, events, self._counts, environment.telemetry, spans)
        self._admission = admission = TurnAdmission(
            session,
            environment.limits,
            environment.turns_opened_at_once,
            environment.telemetry,
            environment.turns_of_many_opened_at_once,
        )
        self._recovery = recovery = TurnResumer(
            place, app, session, versions, table, tasks, admission, is_restarted=environment.is_restarted
        )
        user_messages = UserMessages(environment, versions)
        budget = environment.daily_budget
        self._starter = starter = TurnStarter(place, session, versions, user_messages, table, tasks, recovery, admission, budget)
        self._services = services(RunnerParts(place, app, session, versions, table, tasks, admission, starter, recovery))
        super().__init__(name)

    def handlers(self) -> Handlers:
        """The messages that the Runner takes, those of its services too."""
        return with_services(self._core_handlers(), self._services)

    def _core_handlers(self) -> Handlers:
        return {
            p.StartTurn: self._starter.start_turn,
            p.RecoverTurns: self.recover_turns,
            p.ResumeTurns: self._recovery.resume_turns,
            p.RecoverTurn: self._recovery.recover_turn,
            p.CancelTurn: self._starter.cancel_turn,
            p.RunChild: self._requests.run_child,
            p.StopBranch: self._requests.stop_branch,
            p.TakeLlmCall: self._requests.take_llm_call,
            p.GetStatistics: self.statistics,
            p.Stop: self.stop,
        }

    async def recover_turns(self, message: p.RecoverTurns) -> p.Ack:
        """Resume what this Runner ran when its process was lost, and have services go on."""
        self._place.promote(message.term)
        try:
            for service in self._services:
                service.recover()
            return await self._recovery.recover_turns(message)
        finally:
            self._place.is_promoting = False

    async def prepare(self) -> None:
        """Connect to the Session actors, so that a process that stands by finds its turns without delay later."""
        await self._recovery.prepare()

    async def statistics(self, _: p.GetStatistics) -> p.Statistics:
        """The figures of the Runner and of every live agent that replies in time; the others are counted as `silent`."""
        live = self._directory.live()
        asked = await asyncio.gather(*(self._statistics_of(agent, link) for agent, link in live))
        losses, activations = self._directory.losses(), self._directory.activations()
        agents = [
            _with_its_past(each, restarts=losses.get(each.agent, 0), activations=activations.get(each.agent, 0))
            for each in asked
            if isinstance(each, p.Statistics)
        ]
        own = self.figures()
        counts = {**own.counts, "silent": asked.count(_SILENT)}
        return msgspec.structs.replace(own, counts=counts, agents=agents, activations=dict(activations))

    def figures(self) -> p.Statistics:
        """The figures of the Runner alone, which ask no other process."""
        counts = {**self._counts, "running": len(self._table), "waiting": self._admission.waiting, **self._directory.counts()}
        for service in self._services:
            counts |= service.figures()
        most, why = self._host_limit() if self._host_limit is not None else (0, "")
        if why:
            counts["max_hosts"] = most
        return p.Statistics(
            actor=self.name,
            pid=os.getpid(),
            counts=counts,
            spare_pids=self._directory.spare_pids(),
            standby_pids=self.standby_pids,
            host_limit=why,
            connections=self.connections(),
        )

    async def _statistics_of(self, agent: str, link: Link) -> p.Statistics | str | None:
        try:
            async with asyncio.timeout(SILENT_S):
                return msgspec.structs.replace(await AgentRef(link).statistics(), agent=agent)
        except TimeoutError:
            # Its code blocks the event loop, or its process is stopped: who wants to see what is wrong must not wait for it.
            return _SILENT
        except ActorLostError:
            self._directory.drop_link(agent, link)
            return None

    async def stop(self, message: p.Stop) -> p.Ack:
        """Stop every agent, and cancel the turns that run, or leave them open in the log."""
        for service in self._services:
            await service.close()
        await self._recovery.leave()
        if message.leave_turns:
            await self._tasks.leave_all()
        else:
            await self._tasks.cancel_all()
        await self._directory.close()
        await self._telemetry.flush()
        return p.Ack()


def _with_its_past(agent: p.Statistics, **counts: int) -> p.Statistics:
    """The figures of an agent, which does not know itself how often its process was lost, and how often it was activated."""
    return msgspec.structs.replace(agent, counts={**agent.counts, **counts})


class AgentRequests:
    """Serves the runs of turns that run here. Each request raises FencedError when its turn or its run is over.

    Runs are stopped all at the same time, so a child may end before the run that asked for it is stopped. That run gets no
    reply until it is stopped itself: it would take the end of its child for an answer, and go on.
    """

    def __init__(self, table: TurnTable, versions: TurnVersions) -> None:
        self._table = table
        self._versions = versions

    async def run_child(self, message: p.RunChild) -> p.AnyOutcome:
        """Run an agent for its supervisor, or for the agent that has it as a tool."""
        turn, parent = self._asking(message.turn)
        await _require_going_on(message.turn, parent)
        dispatch = self._versions.loaded[turn.version].dispatch
        run = dispatch.child_run(turn, parent, message)
        task = asyncio.create_task(dispatch.child(turn, run, message))
        try:
            with turn.runs.waiting(task, run):
                outcome = await task
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            outcome = p.Cancelled(agent=message.child)
        except RaygroveError:
            await _require_going_on(message.turn, parent)
            raise
        await _require_going_on(message.turn, parent)
        return msgspec.structs.replace(outcome, state_seq=turn.state_seq)

    async def stop_branch(self, message: p.StopBranch) -> p.Ack:
        """Stop the runs on a branch or below it; without a branch, what the asking run has asked for."""
        turn, asking = self._asking(message.turn)
        if asking.stopped is not None:
            # It is stopped together with all that it has asked for, and must not wait for itself here.
            raise _fenced(message.turn)

        def is_stopped(run: Run) -> bool:
            if message.branch:
                return is_below_branch(run.branch, message.branch)
            if message.child:
                return run.serves(asking, message.child)
            return run is not asking and run.is_below(asking)

        runs = turn.runs.which(is_stopped)
        turn.runs.stop_waiting(is_stopped)
        await self._versions.loaded[turn.version].invoker.stop_for_good(turn, runs)
        return p.Ack()

    async def take_llm_call(self, message: p.TakeLlmCall) -> p.Ack:
        """Count one model call. Raises LlmCallsLimitExceededError when none is left."""
        turn, asking = self._asking(message.turn)
        await _require_going_on(message.turn, asking)
        if turn.calls.left <= 0:
            raise LlmCallsLimitExceededError(message.agent, turn.config.max_llm_calls)
        turn.calls.count(1)
        return p.Ack()

    def _asking(self, ref: p.TurnRef) -> tuple[RunningTurn, Run]:
        """The turn, and the run in it that asks. Raises FencedError when one of them has ended or was abandoned."""
        turn = self._table.get((ref.key, ref.invocation_id))
        is_current = turn is not None and turn.ref == msgspec.structs.replace(ref, run=0)
        run = turn.runs.get(ref.run) if turn is not None and is_current else None
        if turn is None or run is None:
            raise _fenced(ref)
        return turn, run


async def _require_going_on(ref: p.TurnRef, run: Run) -> None:
    """Raise FencedError if a run is being stopped, as soon as it is. Code that catches the error can write nothing by then."""
    if run.stopped is not None:
        await run.stopped.wait()
        raise _fenced(ref)


def _fenced(ref: p.TurnRef) -> FencedError:
    return FencedError(ref.invocation_id, ref.epoch)
