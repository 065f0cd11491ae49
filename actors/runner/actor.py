"""The Runner actor: it selects the agent of every turn and routes `transfer_to_agent` between agents.

It sees no event but the user's. It sends `Invoke` to one agent after the other and awaits their outcomes; supervisors ask it to
run their children, so the way in which an agent is run, repeated and fenced stands in one place: `dispatch/invoker.py`.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter
from functools import partial

import msgspec

from actors.actor import Actor, Handlers, with_services
from actors.errors import ActorLostError
from actors.interfaces.transport import Link
from actors.messages import protocol as p
from actors.messages.session import ONLY_SHARD, Shard
from actors.refs import AgentRef
from actors.runner.dispatch.events import RunnerEvents
from actors.runner.dispatch.hooks import MakeHooks, TurnHooks
from actors.runner.dispatch.isolation import Isolation
from actors.runner.dispatch.versions import MakeTurnVersions, TurnVersions, version_parts
from actors.runner.environment import RunnerEnvironment
from actors.runner.service import RunnerParts, RunnerServices, no_services
from actors.runner.turns.admission import TurnAdmission
from actors.runner.turns.agent_requests import AgentRequests
from actors.runner.turns.place import RunnerPlace
from actors.runner.turns.recovery import TurnResumer
from actors.runner.turns.start import TurnStarter
from actors.runner.turns.table import TurnTable
from actors.runner.turns.tasks import MakeSpans, TurnTasks
from actors.runner.turns.user_message import UserMessages

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
        versions: MakeTurnVersions = TurnVersions,
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
        make_parts = partial(version_parts, events, self._counts, isolation, hooks)
        self._versions = turn_versions = versions(environment, make_parts)
        self._requests = AgentRequests(table, turn_versions)
        self._tasks = tasks = TurnTasks(place, session, table, turn_versions, events, self._counts, environment.telemetry, spans)
        self._admission = admission = TurnAdmission(
            session,
            environment.limits,
            environment.turns_opened_at_once,
            environment.telemetry,
            environment.turns_of_many_opened_at_once,
        )
        self._recovery = recovery = TurnResumer(
            place, app, session, turn_versions, table, tasks, admission, is_restarted=environment.is_restarted
        )
        user_messages = UserMessages(environment, turn_versions)
        budget = environment.daily_budget
        self._starter = starter = TurnStarter(
            place, session, turn_versions, user_messages, table, tasks, recovery, admission, budget
        )
        self._services = services(RunnerParts(place, app, session, table, tasks, admission, starter, recovery))
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
            **self._versions.handlers(),
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
