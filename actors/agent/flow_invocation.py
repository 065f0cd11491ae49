"""One run in a flow, as its behaviour sees it: an agent's round, or the run of the flow's controller."""

from __future__ import annotations

from typing import cast

from actors.agent.invocation import Invocation
from actors.agent.nodes.invocation import asked_of
from actors.agent.nodes.reader import NodeReader
from actors.agent.session_reader import SessionReader
from actors.agent.views.session_view import AgentView
from actors.messages import protocol as p
from actors.messages.event import Event
from actors.messages.flow import FlowMark, Work
from actors.messages.graph import NodeTask
from actors.messages.json_types import JsonValue
from actors.rules.prompt.history import History
from actors.rules.prompt.task_history import TaskHistory


class RoundInvocation(Invocation):
    """An agent's run for one round of a flow. Implements `WorkContext` of actors.interfaces.context."""

    history: type[History] | None = TaskHistory

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
        return self.llm_budget.used

    async def task_view(self) -> TaskHistory:
        """Return the log as an agent sees it that works in flows: see WorkContext."""
        return cast(TaskHistory, await self.view())


class ControllerInvocation(Invocation):
    """The run of a flow's controller. Implements `ControllerContext` of actors.interfaces.context."""

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

    async def record(self, event: Event, *, is_last: bool = False) -> Event:
        """Store an event that plugins do not see: see ControllerContext."""
        return await self.writer.record(event, is_last=is_last)

    async def work_round(self, agent: str, work: Work, note: Event | None = None) -> p.AnyOutcome:
        """Have an agent do a round: see ControllerContext."""
        return await self.children.run_round(agent, work, self.writer.addressed(note) if note is not None else None)

    async def stop_rounds(self) -> None:
        """Stop all rounds: see ControllerContext."""
        await self.children.stop()

    async def marks(self, run: str, after_seq: int) -> list[tuple[str, FlowMark]]:
        """Return what the log says of a flow's run: see ControllerContext."""
        events = self.reader.events(after_seq)
        return [(event.author, event.flow) async for event in events if event.flow is not None and event.flow.run == run]
