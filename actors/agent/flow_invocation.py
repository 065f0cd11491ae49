"""One run in a flow, as a behaviour sees it: an agent's round, or the run of a flow's controller."""

from __future__ import annotations

from typing import cast

import msgspec

from actors.agent.environment import AgentEnvironment
from actors.agent.invocation import Invocation
from actors.agent.session_view import SessionView
from actors.definitions.flows.plan import FlowPlan
from actors.definitions.tree.spec import AgentSpec
from actors.messages import protocol as p
from actors.messages.codec import decode_event
from actors.messages.event import Event
from actors.messages.flow import FlowMark, Work
from actors.rules.prompt.branches import tool_root
from actors.rules.prompt.task_history import TaskHistory


class FlowInvocation(Invocation):
    """Implements `WorkContext` and `ControllerContext` of actors.interfaces.context."""

    def __init__(
        self,
        spec: AgentSpec,
        message: p.Invoke,
        environment: AgentEnvironment,
        view: SessionView,
        counts: dict[str, int],
    ) -> None:
        super().__init__(spec, message, environment, view, counts)
        self._plans = environment.plans
        self.opened_seq = self._message.user_event.seq
        self.is_turn = bool(self._message.closes)

    @property
    def work(self) -> Work:
        """The round that is wanted."""
        assert self._message.work is not None, "only rounds of a flow have it"
        return self._message.work

    async def plan(self, definition: str) -> FlowPlan:
        """The definition of a flow: see WorkContext."""
        return await self._plans(definition)

    async def task_view(self) -> TaskHistory:
        """The log as the agent sees it: see WorkContext."""
        return cast(TaskHistory, await self.view())

    def _addressed(self, event: Event) -> Event:
        """The event with all that it needs, its tasks among it: also when it tells of a failure, or is a piece of an answer."""
        work = self._message.work
        if work is not None and event.flow is None:
            event = msgspec.structs.replace(event, flow=FlowMark(run=work.run, tasks=work.tasks, round=work.round))
        return super()._addressed(event)

    async def work_round(self, agent: str, work: Work) -> p.AnyOutcome:
        """Have an agent do a round: see ControllerContext."""
        # Only an agent that is asked as a tool is asked something else than what the turn was opened with.
        asked = self._message.user_event if tool_root(self.branch) is not None else None
        return await self._runner.run_child(
            p.RunChild(turn=self._turn, parent=self.agent_name, child=agent, branch=self.branch, user_event=asked, work=work)
        )

    async def stop_rounds(self) -> None:
        """Stop the rounds that are under way: see ControllerContext."""
        await self._runner.stop_branch(p.StopBranch(turn=self._turn))

    async def marks(self, run: str, after_seq: int) -> list[tuple[str, FlowMark]]:
        """What the log says of a run of a flow: see ControllerContext."""
        found: list[tuple[str, FlowMark]] = []
        async for fetched in self._news(after_seq, self._message.generation):
            for stored in fetched.events:
                event = decode_event(stored.raw, stored.seq)
                if event.flow is not None and event.flow.run == run:
                    found.append((event.author, event.flow))
        return found
