"""Runs in a graph, as their behaviours see them: of a graph, of agents that are its nodes, and of those that these run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import MappingProxyType

import msgspec

from actors.agent.environment import AgentParts
from actors.agent.invocation import Invocation
from actors.agent.session_reader import SessionReader
from actors.agent.views import AgentView
from actors.definitions.schemas import output_type
from actors.layers.graphs.definitions.checks import as_class
from actors.layers.graphs.rules import sight
from actors.layers.graphs.rules.sight import UserAnswers, node_info
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import USER, Event, decode_event
from actors.messages.graph import NodeInfo, NodeTask, Unstored, is_below, node_at, root_path
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue, StateDelta
from actors.messages.topology import CHAT, PARALLEL, TASK
from actors.refs import SessionRef
from actors.rules.prompt.history import History
from actors.rules.routing import resumption
from actors.rules.routing.branches import is_below_branch


class NodeReader(SessionReader):
    """Reads the log as an agent sees it that is a node: its input, and the events of its own run.

    It also sees the messages of the user to the turn that agents have read while it runs.

    An agent that is part of the run, such as a child of a workflow agent that is the node, sees what the others in it have said.

    Args:
        task: what the agent is asked.
        agent: whose run it is.
        is_chat: it sees the conversation, and is given nothing else.
        history: what it sees is compiled to this one.

    Attributes:
        answer: the output of the agent's last final response, without one its text; None so far.
        words_seq: the place of the user's last words to an agent that works on a task; 0 so far.
    """

    def __init__(
        self,
        session: SessionRef,
        message: p.Invoke,
        view: AgentView,
        task: NodeTask,
        agent: str,
        *,
        is_chat: bool = False,
        history: Callable[[str, str | None], History] = History,
    ) -> None:
        super().__init__(session, message, view, compiles=False, reads_state=True)
        self._task = task
        self._path = task.path
        self._after_seq = task.after_seq
        self._agent = agent
        self._graph = task.graph
        self._recalled: list[Event] = []
        self._since = 0.0
        self._messages_seq = message.first_seq or message.user_event.seq
        self._may_have_messages = False
        self._invocation_id = message.turn.invocation_id
        self._history = history(agent, message.branch)
        # What it has not been asked for yet: no model is shown the last answer of a run.
        self._uncompiled: list[Event] = []
        self.answer: JsonValue = None
        self._sees_conversation = task.sees_conversation
        self._is_given_nothing = task.is_given_nothing
        self._is_chat = is_chat
        self.words_seq = 0
        self._asked = Event(author=USER, invocation_id=self._invocation_id, branch=message.branch)

    def ask(self, content: Content) -> None:
        """Take the input, as the user's message, before the run begins."""
        self._asked = msgspec.structs.replace(self._asked, content=content)

    async def view(self, message: Content) -> History:
        """Return what the agent sees, with the state as of now, if others have changed it."""
        if self._may_have_messages:
            self._may_have_messages = False
            async for event in self.events(self._messages_seq):
                self._messages_seq = event.seq
                if event.steers and event.invocation_id == self._invocation_id:
                    self._uncompiled.append(event)
        await self.refresh_state(0)
        return self.history

    def add_foreign(self) -> None:
        """Note that the log has an event that was not taken in: see SessionReader. Messages of the user may be among these."""
        super().add_foreign()
        self._may_have_messages = True

    @property
    def history(self) -> History:
        """All that the agent sees, compiled."""
        for event in self._uncompiled:
            self._history.add(event)
        self._uncompiled.clear()
        return self._history

    async def begin_run(self) -> None:
        """Bring the state up to date, and see what came before the input: see SessionReader."""
        await super().begin_run()
        if self._sees_conversation:
            async for event in self.events(0):
                self._messages_seq = event.seq
                if sight.is_said_before(event, self._agent, self._path, self._invocation_id, is_chat=self._is_chat):
                    self._uncompiled.append(msgspec.structs.replace(event, branch=None))
        # A chat has its message in the conversation that it sees.
        if not (self._is_chat or (self._sees_conversation and self._is_given_nothing)):
            self._uncompiled.append(self._asked)
        if self._task.part and not self._recalled:
            # What it has said itself in an earlier iteration is no answer of this run.
            await self.recall(self._task.since)
            self._since = inf
        for event in self._recalled:
            self._see(event, counts=event.seq > self._since)

    async def recall(self, since: int) -> list[Event]:
        """Take in what the run had stored before it was lost or paused, and what the user has answered.

        Returns:
            The events of the agent itself after `since`, its notes of progress aside.
        """
        own = []
        self._since = since
        async for event in self.events(max(self._task.since if self._task.part else since, self._after_seq)):
            self._messages_seq = event.seq
            if event.invocation_id != self._invocation_id:
                continue
            if event.steers and not self._sees_conversation:
                self._recalled.append(event)
            if sight.is_of_run(event, self._path, is_part=bool(self._task.part)):
                self._recalled.append(event)
                if event.author == USER:
                    self.words_seq = event.seq
                elif event.author in (self._agent, self._graph) and event.seq > since and event.actions.agent_state is None:
                    own.append(event)
            elif event.author == USER and any(event.function_responses()):
                self._recalled.append(event)
        return own

    def add_own(self, event: Event, size: int, changed: StateDelta, before_seq: int) -> None:
        """Take in an event that the run has stored: see SessionReader."""
        super().add_own(event, size, changed, before_seq)
        self._see(event, counts=True)

    def _see(self, event: Event, *, counts: bool) -> None:
        shown = sight.shown(event, self._path)
        if shown is None:
            return
        self._uncompiled.append(shown)
        if counts and event.author == self._agent:
            self.take_answer(event)

    def take_answer(self, event: Event) -> None:
        """Note what an event of the agent says as the output of its run, if it says any."""
        if event.output is not None:
            self.answer = event.output
        elif event.content is not None and event.is_final_response() and not self._is_bare_end(event):
            self.answer = event.text

    def _is_bare_end(self, event: Event) -> bool:
        """True where a part of the run ends with a tool, such as `exit_loop`: what was said before stays the output."""
        return bool(self._task.part) and any(event.function_responses())


ASKED = "asked"
"""The progress that a graph notes when it pauses: the place of the message that its first nodes are given."""

_OUTPUT, _OUTPUTS = "output", "outputs"
"""Keys of a supervisor's notes: what was given last; and of agents that run side by side, what each has given."""


class RunInGraph(Invocation):
    """A run that may have a NodeTask."""

    _unstored: Mapping[str, Unstored] = MappingProxyType({})

    def __init__(self, parts: AgentParts, message: p.Invoke, view: AgentView) -> None:
        super().__init__(parts, message, view)
        task, mode = message.node, parts.spec.mode
        if task is not None:
            self.node_path, self._unstored = task.path, task.unstored
            self.writer.node_info = lambda event: node_info(event, task, mode)

    @property
    def state(self) -> JsonMapping:
        """Session state by prefixed keys, as of the last event, with what functions around the run have not stored."""
        return with_unstored(self.reader.state, self._unstored) if self._unstored else self.reader.state


class OutputSoFar:
    """The output of a run: what was said last; of agents that run side by side the outputs of all, by their names.

    A supervisor notes it each time that it notes how far it is, so it is known after a loss or a pause.

    Args:
        reader: knows what the agent itself has said, which counts more than what those side by side have.
        side_by_side: the agents that run so; none for any other agent.
        progress: the last note, when the run goes on.
    """

    def __init__(self, reader: NodeReader, side_by_side: Sequence[str], progress: JsonMapping) -> None:
        self._reader = reader
        self._side_by_side = side_by_side
        self._outputs: JsonObject = dict(progress.get(_OUTPUTS, {}))
        reader.answer = progress.get(_OUTPUT)

    def add(self, agent: str, output: JsonValue) -> None:
        """An agent has ended that the run has asked for."""
        if output is None:
            return
        if self._side_by_side:
            self._outputs[agent] = output
        else:
            self._reader.answer = output

    def noted(self) -> JsonMapping:
        """The fields for a note of progress."""
        if self._outputs:
            return {_OUTPUTS: dict(self._outputs)}
        return {_OUTPUT: self._reader.answer} if self._reader.answer is not None else {}

    def value(self) -> JsonValue:
        """The output as it is now; None for nothing."""
        if self._outputs and self._reader.answer is None:
            return {agent: self._outputs.get(agent) for agent in self._side_by_side}
        return self._reader.answer


class NodeInvocation(RunInGraph):
    """The run of an agent that is a node of a graph, or that is part of the run of one."""

    def __init__(self, parts: AgentParts, message: p.Invoke, view: AgentView) -> None:
        assert message.node is not None
        self._task: NodeTask = message.node
        self._spec = parts.spec
        super().__init__(parts, message, view)
        self._has_said = False
        self.repeat = self._seen.take_answer

    def _reader(self, view: AgentView) -> SessionReader:
        spec, session = self._spec, self.parts.environment.session
        self._seen = NodeReader(session, self.message, view, self._task, spec.name, is_chat=spec.mode == CHAT)
        side_by_side = spec.children if spec.definition.kind == PARALLEL else ()
        self._output = OutputSoFar(self._seen, side_by_side, self.progress)
        return self._seen

    async def begin_run(self, since: int) -> None:
        """Read what the behaviour has to know before it begins: see Invocation."""
        if self.is_resumed:
            self.done = resumption.without_retried(await self._seen.recall(since), self.retried_seq)
            self.writer.recall(self.done)
            asked_seq = self.user_seq
            self._has_said = any(event.author == self.agent_name and event.seq > asked_seq for event in self.done)
        if self._task.is_root:
            await self._recall_message(since)
        # A run that is known to have failed is not refused once more.
        has_failed = bool(self.done) and resumption.is_failure(self.done[-1])
        words = await self._words() if self._task.is_given_nothing else self.user_content
        asked = asked_of(self._task if has_failed else self._checked_task(), words)
        self._seen.ask(asked)
        if not (self.done and any(self.user_content.function_responses())):
            self.user_content = asked
        await self.reader.begin_run()

    async def _words(self) -> Content:
        """The message that a node is asked which is given nothing: where the turn goes on with an answer, the one before."""
        if not any(self.user_content.function_responses()):
            return self.user_content
        return await _words_of_turn(self) or self.user_content

    async def _recall_message(self, since: int) -> None:
        """Of a root that works on its message with the user: the turn may go on with a later one, which it sees, too."""
        content: Content | None = self.user_content
        if self.is_resumed:
            async for event in self._seen.events(since - 1):
                content = event.content
                break
        self._task = msgspec.structs.replace(self._task, content=content)

    def _checked_task(self) -> NodeTask:
        """The task, with data in the form of the agent's input_schema. Raises ValidationError (pydantic)."""
        schema = getattr(self._spec.definition, "input_schema", None)
        task = self._task
        if schema is None or task.part or (task.content is None and task.data is None):
            return task
        given = as_class(schema, task.data if task.content is None else task.content)
        return msgspec.structs.replace(task, content=None, data=given.model_dump(mode="json"))

    @property
    def words_seq(self) -> int:
        """See Context."""
        return self._seen.words_seq

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Store or deliver an event, a final response with its output in the form of the agent's output_schema: see Context."""
        schema = getattr(self._spec.definition, "output_schema", None) if self._spec.mode != TASK else None
        # Of a run that a tool has asked for, what is said is that run's.
        if schema is not None and event.node_info is None and event.text and not event.partial and event.is_final_response():
            event = msgspec.structs.replace(event, output=output_type(schema).value_of(event.text))
        stored = await super().emit(event, is_last=is_last)
        self._has_said = self._has_said or not event.partial
        return stored

    async def run_child(
        self, name: str, *, branch: str | None = None, progress: JsonMapping | None = None, resume: bool = False
    ) -> p.AnyOutcome:
        """Run a child, which is part of the same run of the node: see Invocation."""
        noted = {**progress, **self._output.noted()} if progress is not None else None
        outcome = await super().run_child(name, branch=branch, progress=noted, resume=resume)
        if isinstance(outcome, p.Finished):
            self._output.add(name, outcome.output)
        return outcome

    async def note(self, progress: JsonMapping, custom_metadata: JsonObject | None = None) -> None:
        """Store how far the run is, and what it has given so far: see Invocation."""
        await super().note({**progress, **self._output.noted()}, custom_metadata)

    def told_by(self, failure: Event) -> Event:
        """The event of the run's failure: its author is the agent, where it has said something before, and else the graph."""
        return failure if self._has_said else msgspec.structs.replace(failure, author=self._task.graph)

    def output_of(self, outcome: p.Finished) -> JsonValue:
        """The output for the nodes after it: that of its last final response, or the text; of a chat nothing."""
        return self._output.value() if self._spec.mode != CHAT else None


class GraphInvocation(RunInGraph):
    """The run of a graph.

    Attributes:
        task: what it is asked as a node of another graph; None: it answers the user's message.
        answers: the user's answers to questions of nodes, when the run goes on after a pause or a loss.
        is_node: it is a node of a graph, which tries it again.
        attempt: of the graph as a whole, from 1; of a node the graph around it counts.
        after_seq: the place in the log up to which failures are those of earlier attempts; 0 in the first.
    """

    def __init__(self, parts: AgentParts, message: p.Invoke, view: AgentView) -> None:
        super().__init__(parts, message, view)
        self.task = message.node.of_graph() if message.node is not None else None
        began_seq = self.task.since if self.task is not None else 0
        self.begun_seq = message.since if message.resume else max(message.user_event.seq, began_seq)
        self.path = self.task.path if self.task is not None else root_path(parts.spec.name)
        self.is_node = self.task is not None and bool(self.task.graph) and not self.task.is_delegated
        self.answers = UserAnswers()
        self.attempt = 1
        self.after_seq = self.task.after_seq if self.task is not None else 0
        self._turn_retried_seq = self.retried_seq
        self._agents = parts.spec.children

    async def begin_run(self, since: int) -> None:
        """Read what the behaviour has to know before it begins: see Invocation.

        After a pause the turn's message answers a call, and the nodes behind START are still given the one before.
        """
        asked = self.progress.get(ASKED)
        if self.task is None and asked is not None:
            event = await _event_at(self, asked)
            self.user_content = (event.content if event is not None else None) or self.user_content
        if self.task is None and any(self.user_content.function_responses()):
            # An agent that ran before the graph has paused.
            self.user_content = await _words_of_turn(self) or self.user_content
        if self.is_resumed:
            self.writer.recall(await self._recall(since))
        await self.reader.begin_run()

    async def begin_again(self) -> None:
        """Begin another attempt: what has ended stays so, and what has failed counts no more. Raises FencedError."""
        self.is_resumed = True
        await self._recall(self.begun_seq)

    async def _recall(self, since: int) -> Sequence[Event]:
        """Take in what the log has of the run, and return its events."""
        self.answers = UserAnswers()
        own: list[Event] = []
        async for event in self.reader.events(since):
            if event.author == USER and event.invocation_id == self.invocation_id and not event.steers:
                self.answers.add(event)
            elif event.seq > since and self.is_own(event) and not self._is_told_for_agent(event):
                own.append(event)
                self._count_attempt(event)
        # What has failed in an earlier attempt begins anew.
        self.retried_seq = max(self._turn_retried_seq, self.after_seq)
        self.done = own
        return own

    def _count_attempt(self, event: Event) -> None:
        info = event.node_info
        if self.is_node or info is None or info.path != self.path or not info.attempt:
            return
        self.after_seq = event.seq
        # Attempts are counted anew when the turn was retried.
        self.attempt = info.attempt + 1 if event.seq > self._turn_retried_seq else 1

    def _is_told_for_agent(self, event: Event) -> bool:
        """True for the event with which the run of an agent in it has failed: the agent's run goes on from it."""
        info = event.node_info
        return info is not None and resumption.is_failure(event) and node_at(info.path) in self._agents

    def is_own(self, event: Event) -> bool:
        """True for the run's own events, its notes of progress aside: its nodes may be on branches below its own."""
        if event.author != self.agent_name or event.invocation_id != self.invocation_id:
            return False
        if event.actions.agent_state is not None:
            return False
        if self.task is not None:
            return event.node_info is not None and is_below(event.node_info.path, self.task.path)
        return self.branch is None or is_below_branch(event.branch, self.branch)

    def told_by(self, failure: Event) -> Event:
        """The event of the failure of the graph itself: it has the path of the graph."""
        return msgspec.structs.replace(failure, node_info=NodeInfo(path=self.path))

    def output_of(self, outcome: p.Finished) -> JsonValue:
        """The output for the nodes after it: the behaviour of the graph knows it."""
        return outcome.output


def asked_of(task: NodeTask, user_content: Content) -> Content:
    """The question to an agent that is a node: the user's message, lists and dictionaries as JSON, all else as its text."""
    if task.content is not None:
        return task.content
    if task.is_given_nothing:
        return user_content
    is_nested = isinstance(task.data, list | dict)
    return Content.of_text(json.dumps(task.data, ensure_ascii=False) if is_nested else str(task.data))


def with_unstored(state: JsonMapping, unstored: Mapping[str, Unstored]) -> JsonMapping:
    """Return the state with what is not stored, as far as the log has nothing newer.

    Args:
        state: as the log has it. It is not changed.
    """
    held = {key: each.value for key, each in unstored.items() if each.holds(state, key)}
    return {**state, **held} if held else state


async def _event_at(run: Invocation, seq: int) -> Event | None:
    """The event at a place, None where none is seen there."""
    asked = p.ReadLog(key=run.message.turn.key, after_seq=seq - 1, before_seq=seq + 1, limit=1)
    part = await run.parts.environment.session.ask(asked)
    return decode_event(part.events[0].raw, seq) if part.events else None


async def _words_of_turn(run: Invocation) -> Content | None:
    """The message with which a turn began that goes on with an answer; None where the log does not have it."""
    if run.message.first_seq:
        event = await _event_at(run, run.message.first_seq)
        if event is not None and _are_words(event, run.invocation_id):
            return event.content
    # What a program has put into the session has no record that says where it began.
    async for event in run.reader.events(0):
        if _are_words(event, run.invocation_id):
            return event.content
    return None


def _are_words(event: Event, invocation_id: str) -> bool:
    """True for a message of the user in a turn that is no answer."""
    is_of_turn = event.author == USER and event.invocation_id == invocation_id
    return is_of_turn and event.content is not None and not any(event.function_responses())
