"""One run in a flow, as its behaviour sees it: an agent's round, or the run of the flow's controller."""

from __future__ import annotations

from typing import cast

from actors.agent.invocation import Invocation
from actors.messages import protocol as p
from actors.messages.event import Event
from actors.messages.flow import FlowMark, Work
from actors.rules.prompt.task_history import TaskHistory


class RoundInvocation(Invocation):
    """An agent's run for one round of a flow. Implements `WorkContext` of actors.interfaces.context."""

    @property
    def llm_calls(self) -> int:
        """Model calls that the run has made so far."""
        return self.llm_budget.used

    async def task_view(self) -> TaskHistory:
        """Return the log as an agent sees it that works in flows: see WorkContext."""
        return cast(TaskHistory, await self.view())


class ControllerInvocation(Invocation):
    """The run of a flow's controller. Implements `ControllerContext` of actors.interfaces.context."""

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
