"""The runs of other agents that one run asks the Runner for: children, and agents that it has as tools."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from actors.agent.event_writer import EventWriter
from actors.agent.session_reader import SessionReader
from actors.definitions.tree.spec import AgentSpec
from actors.errors import FencedError, UnknownAgentError
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import Event
from actors.messages.graph import NodeTask
from actors.messages.json_types import JsonMapping
from actors.refs import RunnerRef
from actors.rules.routing.branches import tool_branch


class Children:
    """Has other agents run for one run.

    Attributes:
    """

    def __init__(self, spec: AgentSpec, message: p.Invoke, runner: RunnerRef, reader: SessionReader, writer: EventWriter) -> None:
        self._spec = spec
        self._message = message
        self.runner = runner
        self._reader = reader
        self._writer = writer
        self._asked: defaultdict[str, int] = defaultdict(int)

    async def run(
        self,
        name: str,
        progress: JsonMapping,
        *,
        branch: str | None = None,
        note: Event | None = None,
        resume: bool = False,
    ) -> p.AnyOutcome:
        """Run a child, on a branch or on the run's own: see Invocation.run_child.

        Args:
            note: says that the child begins, and is on its way to the log; the child brings it along.
        """
        message = self._message
        place = self._place(name, progress)
        outcome = await self.runner.ask(
            p.RunChild(
                turn=message.turn,
                parent=self._spec.name,
                child=name,
                branch=branch or message.branch,
                node=message.node.of_part(name, _run_id(place)) if message.node is not None else None,
                resume=resume,
                notes=self._writer.notes_with(note),
                place=place,
            )
        )
        if outcome.escalated and not self._spec.definition.absorbs_escalation:
            self._writer.has_escalated = True
        return outcome

    def _place(self, name: str, progress: JsonMapping) -> str:
        """The place of this run among its runs of a child: see RunChild."""
        if self._spec.definition.kind == "custom":
            # Its code begins again after a loss, and asks for the same children again.
            self._asked[name] += 1
            return str(self._asked[name])
        restarts = progress.get("restarts", {}).get(name, ())
        return f"{progress.get('iteration', 0)}.{len(restarts)}"

    async def ask(self, name: str, call_id: str, content: Content, traceparent: str) -> tuple[p.AnyOutcome, str]:
        """Run an agent as a tool: see Context.ask_agent.

        Args:
            traceparent: of the tool call; "" without one.
        """
        if name not in self._spec.tool_agents:
            known = ", ".join(self._spec.tool_agents) or "none"
            raise UnknownAgentError(name, f" {self._spec.name!r} has these agents as tools: {known}.")
        branch = tool_branch(self._message.branch, self._spec.name, call_id)
        message = self._message
        # The call of a run that was lost is made again: the agent goes on with what it was asked then.
        before = await self._reader.asked_before(branch, content) if message.resume else None
        asked = before or await self._writer.ask(branch, content)
        run = p.RunChild(
            turn=message.turn,
            parent=self._spec.name,
            child=name,
            branch=branch,
            user_event=asked,
            resume=before is not None,
            notes=self._writer.notes_with(None),
            traceparent=traceparent,
        )
        async with self._stopped_with_call(branch):
            outcome = await self.runner.ask(run)
        return outcome, await self._reader.tool_answer(branch, asked.seq)

    async def delegate(self, name: str, task: NodeTask, branch: str, *, resume: bool) -> p.AnyOutcome:
        """Run a child for a call: see Context.delegate."""
        if name not in self._spec.children:
            known = ", ".join(self._spec.children) or "none"
            raise UnknownAgentError(name, f" {self._spec.name!r} has these agents below it: {known}.")
        async with self._stopped_with_call(branch):
            return await self.run_node(name, task, branch, resume=resume)

    @asynccontextmanager
    async def _stopped_with_call(self, branch: str) -> AsyncIterator[None]:
        """Where the block is cancelled the call is, and what runs on its branch is stopped: its answer is not wanted any more."""
        try:
            yield
        except asyncio.CancelledError:
            with suppress(FencedError):
                await self.stop(branch)
            raise

    async def run_node(
        self, name: str, task: NodeTask, branch: str | None, *, resume: bool, state: tuple[bytes, int] = (b"", 0)
    ) -> p.AnyOutcome:
        """Run an agent as a node, and return how its run ended; a Finished has its output.

        Args:
            state: that it begins with, and the place up to which all changes are in it; b"": it reads the state itself.
        """
        outcome = await self.runner.ask(
            p.RunChild(
                turn=self._message.turn,
                parent=self._spec.name,
                child=name,
                branch=branch,
                node=task,
                resume=resume,
                notes=self._writer.notes_with(None),
                # Another attempt is another run.
                place=f"{task.path} {task.after_seq}",
                state=state[0],
                state_seq=state[1],
            )
        )
        if outcome.escalated:
            self._writer.has_escalated = True
        return outcome

    async def stop(self, branch: str = "", child: str = "") -> None:
        """Stop the runs on a branch, or of a child, or else all that this run has asked for; returns when they have ended."""
        await self.runner.ask(p.StopBranch(turn=self._message.turn, branch=branch, child=child))


def _run_id(place: str) -> str:
    """The run at a place as paths have it: the number of the iteration from 1, and of the restart, if it is one."""
    iteration, _, restarts = place.partition(".")
    if not restarts:
        return place
    return f"{int(iteration) + 1}" if restarts == "0" else f"{int(iteration) + 1}_{restarts}"
