"""One run in a flow, as its behaviour sees it: an agent's round, or the run of the flow's controller."""

from __future__ import annotations

from typing import cast

from actors.agent.environment import AgentParts
from actors.agent.invocation import Invocation
from actors.agent.session_reader import SessionReader
from actors.agent.views import AgentView
from actors.errors import FlowNotFoundError
from actors.layers.flows.definitions.flow import FlowPlan, FlowPlans
from actors.layers.flows.rules.prompt import TaskHistory
from actors.layers.graphs.runs import NodeReader, RunInGraph, asked_of
from actors.messages import protocol as p
from actors.messages.event import Event
from actors.messages.flow import FlowMark, Work
from actors.messages.graph import NodeTask
from actors.messages.json_types import JsonValue
from actors.rules.prompt.history import History
from actors.rules.routing.branches import tool_root


async def plan_of(run: Invocation, flow: str) -> FlowPlan:
    """The definition of a flow by its name. Raises FlowNotFoundError, ActorLostError."""
    plans = run.reach(FlowPlans)
    if plans is None:
        raise FlowNotFoundError(flow)
    return await plans.find(flow)


class RoundInvocation(RunInGraph):
    """An agent's run for one round of a flow."""

    history: type[History] | None = TaskHistory

    def __init__(self, parts: AgentParts, message: p.Invoke, view: AgentView) -> None:
        assert message.work is not None
        work = self.work = message.work
        super().__init__(parts, message, view)
        self.writer.mark = FlowMark(run=work.run, tasks=work.tasks, round=work.round)

    def _reader(self, view: AgentView) -> SessionReader:
        self._task = self.message.node
        if self._task is None:
            return super()._reader(view)
        # The flow is a node: the agent sees what that was asked, and what was said in its run.
        session = self.parts.environment.session
        seen = NodeReader(session, self.message, view, self._task, self.agent_name, history=TaskHistory)
        asked = asked_of(self._task, self.user_content)
        seen.ask(asked)
        if not any(self.user_content.function_responses()):
            self.user_content = asked
        return seen

    @property
    def llm_calls(self) -> int:
        """Model calls that the run has made so far."""
        return self.run_parts.llm_calls

    async def task_view(self) -> TaskHistory:
        """Return the log as an agent sees it that works in flows."""
        return cast(TaskHistory, await self.view())


class ControllerInvocation(RunInGraph):
    """The run of a flow's controller."""

    _task: NodeTask | None = None
    _answer: JsonValue = None

    def _reader(self, view: AgentView) -> SessionReader:
        self._task = self.message.node
        if self._task is not None:
            self.user_content = asked_of(self._task, self.user_content)
        return super()._reader(view)

    async def begin_run(self, since: int) -> None:
        """Read what the behaviour has to know before it begins: see Invocation."""
        await super().begin_run(since)
        if self._task is not None and self.is_resumed and self.noted_seq and not self.progress:
            # It had finished, with its last note: only the outcome was lost.
            async for event in self.reader.events(self.noted_seq - 1):
                self._answer = event.text or None
                break

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Store or deliver an event: see Context."""
        stored = await super().emit(event, is_last=is_last)
        if stored.content is not None and not stored.partial:
            self._answer = stored.text
        return stored

    def output_of(self, outcome: p.Finished) -> JsonValue:
        """The answer of the flow, for the nodes after it: see Invocation."""
        return self._answer if self._task is not None else None

    async def record(self, event: Event) -> Event:
        """Like `emit`, but plugins do not see the event."""
        return await self.writer.record(event)

    async def work_round(self, agent: str, work: Work, note: Event | None = None) -> p.AnyOutcome:
        """Have an agent, wherever in the tree it stands, do a round.

        Args:
            note: has an id and is recorded at the same time; in the log it stands before anything of the round.

        Raises:
            FencedError: the turn was taken over or has ended.
        """
        message, node = self.message, self.message.node
        return await self.children.runner.ask(
            p.RunChild(
                turn=message.turn,
                parent=self.agent_name,
                child=agent,
                branch=message.branch,
                # Only a flow that runs as a tool was asked something else than what the turn was opened with.
                user_event=message.user_event if tool_root(message.branch) is not None else None,
                work=work,
                node=node.of_part(agent, str(work.round)) if node is not None else None,
                notes=self.writer.notes_with(self.writer.addressed(note) if note is not None else None),
            )
        )

    async def marks(self, run: str, after_seq: int) -> list[tuple[str, FlowMark]]:
        """Return the authors and marks of a flow's run that stand in the log after a place, in order."""
        events = self.reader.events(after_seq)
        return [(event.author, event.flow) async for event in events if event.flow is not None and event.flow.run == run]
