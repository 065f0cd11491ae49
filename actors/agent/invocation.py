"""One run of one agent in one turn, as its behaviour sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from actors.agent.environment import AgentEnvironment
from actors.agent.event_writer import EventWriter
from actors.agent.llm_budget import LlmBudget
from actors.agent.run_access import RunAccess
from actors.agent.session_reader import SessionReader
from actors.agent.views.session_view import AgentView
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.model import Model
from actors.messages import protocol as p
from actors.messages.codec import decode_event
from actors.messages.content import Content
from actors.messages.event import Event, EventActions
from actors.messages.graph import NodeTask, Unstored, is_of_tool, root_path, with_unstored
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.messages.llm.model import LlmRequest
from actors.messages.llm.recorded import PackedCall, PackedPart
from actors.rules.prompt.history import History
from actors.rules.routing.branches import delegate_branch
from actors.rules.routing.resumption import without_retried

_HOOKS = ("before_agent_callback", "after_agent_callback", "on_event_callback")
"""The hooks of an agent that is neither a model's nor custom."""

_READS_STATE = ("custom", "graph")
"""The kinds of agents whose own code reads the state, whatever hooks they have."""


class Invocation(RunAccess):
    """The facts of one run, and what its behaviour can have done: by a reader, a writer, and the children's runs.

    Implements `SupervisorContext` of actors.interfaces.context; the attributes that are not listed here are described there.

    Args:
        spec: the agent.
        message: what to run.
        environment: what the agents of this process share.
        view: what the actor remembers of the session.
        counts: the actor's figures.

    Attributes:
        reader: reads the log and the state.
        writer: writes the run's events.
        llm_budget: counts model calls.
        model_named: gives the model of a name, within its limits.
        give_back: releases what the run's code holds and does not give back itself.
        repeat: see SupervisorContext.
    """

    # What most runs never set is on the class: the attributes of an object with more than 30 of its own cost it a dictionary.
    after_seq = 0
    done: Sequence[Event] = ()
    node_path = ""
    _unstored: Mapping[str, Unstored] = MappingProxyType({})

    def __init__(
        self,
        spec: AgentSpec,
        message: p.Invoke,
        environment: AgentEnvironment,
        view: AgentView,
        counts: dict[str, int],
    ) -> None:
        key = message.turn.key
        session, runner = environment.session, environment.runner
        self.agent_name = spec.name
        self.invocation_id = message.turn.invocation_id
        self.user_id = key.user
        self.session_id = key.session
        self.branch = message.branch
        user_event = decode_event(message.user_event.raw, message.user_event.seq)
        self.user_content: Content = user_event.content or Content()
        self.user_seq = user_event.seq
        self.run_config = message.config
        self.streaming = message.config.streaming == "sse"
        self.begun_seq = message.since if message.resume else self.user_seq
        self.is_resumed = message.resume
        self.retried_seq = message.retried_seq
        self.resume_at = message.resume_at
        if message.node is not None:
            self.node_path, self._unstored = message.node.path, message.node.unstored
        self.progress: JsonMapping = message.progress
        self.noted_seq = message.noted_seq
        reader = self._reader(spec, message, environment, view)
        reader.user_event = user_event
        writer = EventWriter(spec, message, session, reader, counts)
        super().__init__(spec, message, environment, reader, writer)
        self.telemetry = environment.telemetry.in_run(message.traceparent, spec.name, key)
        self.llm_budget = LlmBudget(message, runner, session, counts)

    @cached_property
    def model_named(self) -> Callable[[str], Model]:
        """Gives the model of a name: see Context."""
        return lambda name: self._environment.resolve(self.agent_name, name)

    @cached_property
    def give_back(self) -> Callable[[], None]:
        """Releases what the run's code holds: nothing, where no model is limited."""
        return _nothing

    @cached_property
    def repeat(self) -> Callable[[Event], None]:
        """Takes the answer again: for most runs it plays no part."""
        return _ignore

    @cached_property
    def _noted(self) -> JsonMapping:
        return self.progress

    @cached_property
    def _answered(self) -> Sequence[str | None]:
        return [response.id for response in self.user_content.function_responses()]

    def _reader(self, spec: AgentSpec, message: p.Invoke, environment: AgentEnvironment, view: AgentView) -> SessionReader:
        """The reader of the log and of the state for the run."""
        kind = spec.definition.kind
        reads_state = kind in _READS_STATE or (kind != "llm" and any(map(spec.hooks, _HOOKS)))
        return SessionReader(environment.session, message, view, compiles=kind == "llm", reads_state=reads_state)

    def begin_run(self, since: int) -> Coroutine[Any, Any, None]:
        """Read what the behaviour has to know before it begins.

        Args:
            since: the place in the log after which the run began, if it is resumed.
        """
        return self._resume(since) if self.is_resumed else self.reader.begin_run()

    async def _resume(self, since: int) -> None:
        # After a rewind the log is another one, and is read from its start.
        own = [event async for event in self.reader.events(since) if event.seq > since and self.is_own(event)]
        self.done = without_retried(own, self.retried_seq)
        self.writer.recall(self.done)
        await self.reader.begin_run()

    def is_own(self, event: Event) -> bool:
        """True for the run's own events, its notes of progress aside."""
        return (
            event.author == self.agent_name
            and event.branch == self.branch
            and event.invocation_id == self.invocation_id
            and event.actions.agent_state is None
            and not (event.node_info is not None and is_of_tool(event.node_info.path))
        )

    def told_by(self, failure: Event) -> Event:
        """The event of the run's failure, with its author: the agent."""
        return failure

    def output_of(self, outcome: p.Finished) -> JsonValue:
        """The output of the run for the nodes of a graph that come after it; None: it is no node."""
        return None

    @property
    def words_seq(self) -> int:
        """The place of the user's last words to it: see Context."""
        return 0

    @property
    def state(self) -> JsonMapping:
        """Session state by prefixed keys, as of the last event."""
        return with_unstored(self.reader.state, self._unstored) if self._unstored else self.reader.state

    def view(self) -> Coroutine[Any, Any, History]:
        """Return the log as the agent sees it: see Context."""
        return self.reader.view(self._answered)

    def emit(self, event: Event, *, is_last: bool = False) -> Coroutine[Any, Any, Event]:
        """Store or deliver an event: see Context."""
        return self.writer.emit(self, event, is_last=is_last)

    async def emit_all(self, events: Sequence[Event], *, end: p.Finished | None = None) -> Sequence[Event]:
        """Store events together: see Context."""
        return await self.writer.emit_all(self, events, end=end)

    async def record_all(self, events: Sequence[Event], *, end: p.Finished | None = None) -> Sequence[Event]:
        """Store events that plugins do not see: see Context."""
        return await self.writer.record_all(events, end=end)

    def record_call(self, call: PackedCall, parts: Sequence[PackedPart]) -> None:
        """Have the record of a model call stored: see Context."""
        self.writer.record_call(call, parts)

    def note_failed_call(self, call: p.FailedCall) -> None:
        """Have a failed model call counted: see Context."""
        self.writer.note_failed_call(call)

    def take_free_llm_call(self) -> bool:
        """Count a model call for which nothing is to be asked: see Context."""
        return self.llm_budget.take_free_call()

    async def take_llm_call(self, request: LlmRequest, model: str) -> p.MaySpend | p.AskForMore:
        """Count a model call: see Context."""
        return await self.llm_budget.take_call(request, model)

    async def take_optional_llm_call(self, request: LlmRequest, model: str) -> p.MaySpend | p.DoWithout:
        """Count a model call that the run can do without: see Context."""
        return await self.llm_budget.take_optional_call(request, model)

    async def take_tool_calls(self, unstored: int) -> p.MaySpend | p.AskForMore:
        """Check that calls of tools may be run: see Context."""
        return await self.llm_budget.take_tools(unstored)

    async def run_node(
        self, name: str, task: NodeTask, *, branch: str | None, resume: bool, is_first: bool = False
    ) -> p.AnyOutcome:
        """Run an agent as a node: see Context."""
        outcome = await self.children.run_node(name, task, branch, resume=resume)
        await self.reader.refresh_state(outcome.state_seq)
        return outcome

    async def own_below(self, path: str) -> Sequence[Event]:
        """The events that the agent has stored for runs below a path: see Context."""
        found = []
        async for event in self.reader.events(self.begun_seq):
            is_own = event.author == self.agent_name and event.invocation_id == self.invocation_id
            if is_own and event.node_info is not None and event.node_info.path.startswith(f"{path}/"):
                found.append(event)
        return found

    async def ask_agent(self, name: str, call_id: str, content: Content) -> tuple[p.AnyOutcome, str]:
        """Run an agent as a tool: see Context."""
        return await self.children.ask(name, call_id, content, self.telemetry.traceparent_of(call_id))

    async def delegate(self, name: str, run_id: str, call_id: str, data: JsonValue) -> p.AnyOutcome:
        """Run a child as a node, for a call: see Context."""
        path = f"{self.node_path or root_path(self.agent_name)}/{name}@{run_id}"
        task = NodeTask(path=path, graph=name, data=data, is_delegated=True)
        branch = delegate_branch(self.branch, name, call_id)
        outcome = await self.children.delegate(name, task, branch, resume=self.is_resumed)
        await self.reader.refresh_state(outcome.state_seq)
        return outcome

    async def run_child(
        self, name: str, *, branch: str | None = None, progress: JsonMapping | None = None, resume: bool = False
    ) -> p.AnyOutcome:
        """Run a child: see SupervisorContext."""
        if progress is None:
            outcome = await self.children.run(name, self._noted, branch=branch, resume=resume)
        else:
            self._noted = progress
            # The note and the child set out at the same time. Either may come first, so the child brings the note along.
            note = self.writer.addressed(_note(progress))
            _, outcome = await asyncio.gather(
                self._store_note(note), self.children.run(name, progress, branch=branch, note=note, resume=resume)
            )
        await self.reader.refresh_state(outcome.state_seq)
        return outcome

    async def note(self, progress: JsonMapping, custom_metadata: JsonObject | None = None) -> None:
        """Store how far the run is: see SupervisorContext."""
        self._noted = progress
        await self._store_note(_note(progress, custom_metadata))

    async def _store_note(self, note: Event) -> None:
        self.noted_seq = (await self.writer.record(note)).seq

    async def stop_branch(self, branch: str) -> None:
        """Stop every run on a branch: see SupervisorContext."""
        await self.children.stop(branch)

    async def stop_child(self, name: str) -> None:
        """Stop the run of a child: see SupervisorContext."""
        await self.children.stop(child=name)


def _nothing() -> None:
    """Nothing is to be given back."""


def _ignore(event: Event) -> None:
    """The answer plays no part for this run."""


def _note(progress: JsonMapping, custom_metadata: JsonObject | None = None) -> Event:
    return Event(custom_metadata=custom_metadata, actions=EventActions(agent_state=dict(progress)))
