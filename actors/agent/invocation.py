"""One run of one agent in one turn, as its behaviour sees it, and the runs of other agents that it asks for."""

from __future__ import annotations

import asyncio
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from actors.agent.environment import AgentParts
from actors.agent.event_writer import EventWriter
from actors.agent.session_reader import RunInbox, SessionReader
from actors.agent.views import AgentView
from actors.behaviours.interceptor import RunParts, linked
from actors.definitions.spec import AgentSpec
from actors.errors import FencedError, UnknownAgentError
from actors.interfaces.access import ArtifactAccess, LogAccess
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import Event, EventActions, decode_event
from actors.messages.graph import NodeTask, is_of_tool, root_path
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.refs import RunnerRef
from actors.rules.prompt.history import History
from actors.rules.routing.branches import delegate_branch, tool_branch
from actors.rules.routing.resumption import without_retried

T = TypeVar("T")


_HOOKS = ("before_agent_callback", "after_agent_callback", "on_event_callback")
"""The hooks of an agent that is neither a model's nor custom."""

_READS_STATE = ("custom", "graph")
"""The kinds of agents whose own code reads the state, whatever hooks they have."""


_NOTHING: dict[str, Any] = {}
"""The progress of a run that has noted none."""


class Invocation:
    """The facts of one run, and what its behaviour can have done: by a reader, a writer, and the children's runs.

    Implements `actors.interfaces.context.Context`, which describes the attributes that are not listed here.

    Args:
        view: what the actor remembers of the session.

    Attributes:
        history: what the log is compiled to; None: as the agent sees a conversation.
        has_messages: see Context.
        interceptors: what features do around its calls: the first of them.
        progress: of an agent that runs children, its last note, when the run goes on after a pause or a loss; else empty.
        noted_seq: the place of its last note, 0 without one.
        repeat: the run says again what the log has of it already: nothing is stored.
        begun_seq: the place in the log after which the run began.
    """

    # What most runs never set is on the class: the attributes of an object with more than 30 of its own cost it a dictionary.
    noted_seq = retried_seq = 0
    done: Sequence[Event] = ()
    is_resumed = has_messages = False
    node_path = ""
    progress: JsonMapping = _NOTHING
    resume_at: tuple[str, ...] = ()
    repeat: Callable[[Event], None] = staticmethod(lambda event: None)
    history: type[History] | None = None
    _noted: JsonMapping | None = None

    def __init__(self, parts: AgentParts, message: p.Invoke, view: AgentView) -> None:
        self.parts = parts
        self.message = message
        spec, environment, key = parts.spec, parts.environment, message.turn.key
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
        self.offload = environment.offload
        self.clock = environment.clock
        self.begun_seq = message.since if message.resume else self.user_seq
        if message.has_messages:
            self.has_messages = True
        if message.resume or message.resume_at or message.progress or message.noted_seq:
            self.is_resumed, self.retried_seq, self.resume_at = message.resume, message.retried_seq, message.resume_at
            self.progress, self.noted_seq = message.progress, message.noted_seq
        self.reader = self._reader(view)
        self.reader.user_event = user_event
        writer = self.writer = EventWriter(spec, message, environment.session, self.reader, parts.counts)
        self.telemetry = environment.telemetry.in_run(message.traceparent, spec.name, key)
        self.record_all = writer.record_all
        session, runner, resolve = environment.session, environment.runner, environment.resolve
        # What the run has refers to it weakly: no run is left to the collector of cycles.
        run = self.run_parts = RunParts(spec, message, weakref.proxy(self), session, runner, resolve, parts.counts)
        self.interceptors = writer.interceptors = linked(parts.interceptors, run)

    def _reader(self, view: AgentView) -> SessionReader:
        """The reader of the log and of the state for the run."""
        spec, kind = self.parts.spec, self.parts.spec.kind
        reads_state = kind in _READS_STATE or (kind != "llm" and any(map(spec.hooks, _HOOKS)))
        session = self.parts.environment.session
        return SessionReader(session, self.message, view, compiles=kind == "llm", reads_state=reads_state)

    def begin_run(self, since: int) -> Coroutine[Any, Any, None]:
        """Read what the behaviour has to know before it begins.

        Args:
            since: the place in the log after which the run began, if it is resumed.
        """
        return _resumed(self, since) if self.is_resumed else self.reader.begin_run()

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

    # What most turns need none of is made when it is first asked for.

    @cached_property
    def artifacts(self) -> ArtifactAccess:
        """The session's artifacts."""
        return ArtifactAccess(self.parts.environment.artifacts, self.message.turn.key)

    @cached_property
    def log(self) -> LogAccess:
        """Reads the events for user code."""
        return LogAccess(self.message.turn.key, self.reader.all_events)

    @cached_property
    def children(self) -> Children:
        """Has other agents run."""
        return Children(self.parts.spec, self.message, self.parts.environment.runner, self.reader, self.writer)

    def reach(self, kind: type[T]) -> T | None:
        """Give what has a class, for a tool of a feature: see Context."""
        make = self.parts.environment.means.get(kind)
        return make(self.message.turn.key) if make is not None else None

    @property
    def state(self) -> JsonMapping:
        """Session state by prefixed keys, as of the last event."""
        return self.reader.state

    def view(self) -> Coroutine[Any, Any, History]:
        """Return the log as the agent sees it: see Context."""
        return self.reader.view(self.user_content)

    @cached_property
    def inbox(self) -> RunInbox:
        """Messages to agents of the turn, of the user and of other agents."""
        run = weakref.proxy(self)
        return RunInbox(self.parts.environment.session, self.message, self.reader, lambda: run.done)

    def notify(self) -> None:
        """Messages may wait for the run: see NotifyRuns."""
        self.has_messages = True
        self.inbox.notify()

    def emit(self, event: Event, *, is_last: bool = False) -> Coroutine[Any, Any, Event]:
        """Store or deliver an event: see Context."""
        return self.writer.emit(event, is_last=is_last)

    async def emit_all(self, events: Sequence[Event], *, end: p.Finished | None = None) -> Sequence[Event]:
        """Store events together: see Context."""
        return await self.writer.emit_all(events, end=end)

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
        """Run a child, on the branch given or the run's own, and return how its run ended.

        Args:
            progress: is noted while the child begins; in the log it stands before anything of the child's run.
            resume: it may have been begun before this run was lost: then the log says how far it is.

        Raises:
            FencedError: the turn was taken over or has ended.
        """
        if progress is None:
            noted = self._noted if self._noted is not None else self.progress
            outcome = await self.children.run(name, noted, branch=branch, resume=resume)
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
        """Store how far the run is, and with it `custom_metadata` for people who read the log."""
        self._noted = progress
        await self._store_note(_note(progress, custom_metadata))

    async def _store_note(self, note: Event) -> None:
        self.noted_seq = (await self.writer.record(note)).seq

    async def stop_branch(self, branch: str) -> None:
        """Stop every run on a branch that this agent began, or below it; returns when they have ended."""
        await self.children.stop(branch)

    async def stop_child(self, name: str) -> None:
        """Stop the run of a child, and all below it; returns when they have ended. Raises FencedError."""
        await self.children.stop(child=name)

    async def stop_children(self) -> None:
        """Stop every run that this one has asked for; returns when they have ended. Raises FencedError, StoreError."""
        # Made when the first one is asked for.
        if "children" in vars(self):
            await self.children.stop()


async def _resumed(run: Invocation, since: int) -> None:
    # After a rewind the log is another one, and is read from its start.
    own = [event async for event in run.reader.events(since) if event.seq > since and run.is_own(event)]
    run.done = without_retried(own, run.retried_seq)
    run.writer.recall(run.done)
    await run.reader.begin_run()


def _note(progress: JsonMapping, custom_metadata: JsonObject | None = None) -> Event:
    return Event(custom_metadata=custom_metadata, actions=EventActions(agent_state=dict(progress)))


class Children:
    """Asks the Runner to run other agents for one run: children, nodes, and agents that it has as tools."""

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
