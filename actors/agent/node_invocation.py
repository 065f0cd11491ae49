"""Runs in a graph, as their behaviours see them: of a graph itself, and of agents that are its nodes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from actors.agent.environment import AgentEnvironment
from actors.agent.invocation import Invocation
from actors.agent.session_reader import SessionReader
from actors.agent.views.session_view import AgentView
from actors.behaviours.graph.input_check import as_class
from actors.behaviours.graph.run import ASKED
from actors.definitions.agents.output_type import output_type
from actors.definitions.tree.spec import AgentSpec
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import USER, Event
from actors.messages.graph import NodeTask, is_below, node_at
from actors.messages.json_types import JsonValue, StateDelta
from actors.messages.topology import CHAT, TASK
from actors.refs.session import SessionRef
from actors.rules.graph.answers import UserAnswers
from actors.rules.prompt.history import History
from actors.rules.routing import resumption
from actors.rules.routing.branches import is_below_branch


class NodeReader(SessionReader):
    """Reads the log as an agent sees it that is a node: its input, and the events of its own run.

    Args:
        task: what the agent is asked.
        agent: whose run it is.
        is_chat: it sees the conversation, and is given nothing else.

    Attributes:
        history: what the agent sees.
        answer: the output of the run's last final response, without one its text; None so far.
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
        is_chat: bool,
    ) -> None:
        super().__init__(session, message, view, compiles=False, reads_state=True)
        self._path = task.path
        self._after_seq = task.after_seq
        self._agent = agent
        self._graph = task.graph
        self._recalled: list[Event] = []
        self._invocation_id = message.turn.invocation_id
        self.history = History(agent, message.branch)
        self.answer: JsonValue = None
        self._sees_conversation = task.sees_conversation
        self._is_given_nothing = task.content is None and task.data is None
        self._is_chat = is_chat
        self.words_seq = 0
        self._asked = Event(author=USER, invocation_id=self._invocation_id, branch=message.branch)

    def ask(self, content: Content) -> None:
        """Take the input, as the user's message, before the run begins."""
        self._asked = msgspec.structs.replace(self._asked, content=content)

    async def view(self, answered: Iterable[str | None]) -> History:
        """Return what the agent sees."""
        return self.history

    async def begin_run(self) -> None:
        """Bring the state up to date, and see what came before the input: see SessionReader."""
        await super().begin_run()
        if self._sees_conversation:
            async for event in self.events(0):
                is_of_run = self._is_chat or (event.node_info is not None and event.node_info.path == self._path)
                is_earlier = event.author == self._agent and event.invocation_id != self._invocation_id and is_of_run
                is_said = event.author == USER and event.node_info is None and not any(event.function_responses())
                if is_earlier or is_said:
                    self.history.add(msgspec.structs.replace(event, branch=None))
        # A chat has its message in the conversation that it sees.
        if not (self._is_chat or (self._sees_conversation and self._is_given_nothing)):
            self.history.add(self._asked)
        for event in self._recalled:
            self._see(event)

    async def recall(self, since: int) -> list[Event]:
        """Take in what the run had stored before it was lost or paused, and what the user has answered; return its own events."""
        own = []
        async for event in self.events(since):
            if event.invocation_id != self._invocation_id or event.seq <= max(since, self._after_seq):
                continue
            if event.node_info is not None and event.node_info.path == self._path:
                self._recalled.append(event)
                if event.author == USER:
                    self.words_seq = event.seq
                elif event.author in (self._agent, self._graph):
                    own.append(event)
            elif event.author == USER and any(event.function_responses()):
                self._recalled.append(event)
        return own

    def add_own(self, event: Event, size: int, changed: StateDelta, before_seq: int) -> None:
        """Take in an event that the run has stored: see SessionReader."""
        super().add_own(event, size, changed, before_seq)
        self._see(event)

    def _see(self, event: Event) -> None:
        # What the user has said to this very run is part of what it sees.
        self.history.add(msgspec.structs.replace(event, node_info=None) if event.author == USER else event)
        if event.author != USER and event.output is not None:
            self.answer = event.output
        elif event.author != USER and event.content is not None and event.is_final_response():
            self.answer = event.text


class NodeInvocation(Invocation):
    """The run of an agent that is a node of a graph."""

    def __init__(
        self,
        spec: AgentSpec,
        message: p.Invoke,
        environment: AgentEnvironment,
        view: AgentView,
        counts: dict[str, int],
    ) -> None:
        assert message.node is not None
        self._task: NodeTask = message.node
        super().__init__(spec, message, environment, view, counts)
        self._spec = spec

    def _reader(self, spec: AgentSpec, message: p.Invoke, environment: AgentEnvironment, view: AgentView) -> SessionReader:
        self._seen = NodeReader(environment.session, message, view, self._task, spec.name, is_chat=spec.mode == CHAT)
        return self._seen

    async def begin_run(self, since: int) -> None:
        """Read what the behaviour has to know before it begins: see Invocation."""
        if self.is_resumed:
            self.done = resumption.without_retried(await self._seen.recall(since), self.retried_seq)
            self.writer.recall(self.done)
        # A run that is known to have failed is not refused once more.
        has_failed = bool(self.done) and resumption.is_failure(self.done[-1])
        asked = asked_of(self._task if has_failed else self._checked_task(), self.user_content)
        self._seen.ask(asked)
        if not (self.done and any(self.user_content.function_responses())):
            self.user_content = asked
        await self.reader.begin_run()

    def _checked_task(self) -> NodeTask:
        """The task, with data in the form of the agent's input_schema. Raises ValidationError (pydantic)."""
        schema = getattr(self._spec.definition, "input_schema", None)
        if schema is None:
            return self._task
        task = self._task
        given = as_class(schema, task.data if task.content is None else task.content)
        return msgspec.structs.replace(task, content=None, data=given.model_dump(mode="json"))

    @property
    def words_seq(self) -> int:
        """See Context."""
        return self._seen.words_seq

    async def emit(self, event: Event, *, is_last: bool = False) -> Event:
        """Store or deliver an event, a final response with its output in the form of the agent's output_schema: see Context."""
        schema = getattr(self._spec.definition, "output_schema", None) if self._spec.mode != TASK else None
        if schema is not None and event.text and not event.partial and event.is_final_response():
            event = msgspec.structs.replace(event, output=output_type(schema).value_of(event.text))
        return await super().emit(event, is_last=is_last)

    def told_by(self, failure: Event) -> Event:
        """The event of the run's failure: the graph is its author, as of those of functions."""
        return msgspec.structs.replace(failure, author=self._task.graph)

    def output_of(self, outcome: p.Finished) -> JsonValue:
        """The output for the nodes after it: that of its last final response, or the text; of a chat nothing."""
        return self._seen.answer if self._spec.mode != CHAT else None


class GraphInvocation(Invocation):
    """The run of a graph. Implements `GraphContext` of actors.interfaces.context.

    Attributes:
        task, answers: see GraphContext.
    """

    def __init__(
        self,
        spec: AgentSpec,
        message: p.Invoke,
        environment: AgentEnvironment,
        view: AgentView,
        counts: dict[str, int],
    ) -> None:
        super().__init__(spec, message, environment, view, counts)
        self.task = message.node
        self._agents = spec.children
        self.answers = UserAnswers()

    async def begin_run(self, since: int) -> None:
        """Read what the behaviour has to know before it begins: see Invocation.

        After a pause the turn's message answers a call, and the nodes behind START are still given the one before.
        """
        asked = self.progress.get(ASKED)
        if self.task is None and asked is not None:
            async for event in self.reader.events(asked - 1):
                self.user_content = event.content or self.user_content
                break
        if self.is_resumed:
            own = []
            async for event in self.reader.events(since):
                if event.author == USER and event.invocation_id == self.invocation_id:
                    self.answers.add(event)
                elif event.seq > since and self.is_own(event) and not self._is_told_for_agent(event):
                    own.append(event)
            self.done = self._without_failed(own)
            self.writer.recall(own)
        await self.reader.begin_run()

    def _without_failed(self, own: Sequence[Event]) -> Sequence[Event]:
        """The events without those of runs in it with which an earlier attempt has failed: they begin anew."""
        after_seq = self.task.after_seq if self.task is not None else 0
        if not after_seq:
            return own
        before = [(event, event.node_info.path) for event in own if event.seq <= after_seq and event.node_info is not None]
        failed = {path for event, path in before if resumption.is_failure(event)}
        dropped = {event.seq for event, path in before if path in failed}
        return [event for event in own if event.seq not in dropped]

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

    async def record_all(self, events: Sequence[Event]) -> Sequence[Event]:
        """Store events that plugins do not see: see GraphContext."""
        return await self.writer.record_all(events)

    async def run_node(self, name: str, task: NodeTask, *, branch: str | None, resume: bool) -> p.AnyOutcome:
        """Run an agent as a node: see GraphContext."""
        outcome = await self.children.run_node(name, task, branch, resume=resume)
        await self.reader.refresh_state(outcome.state_seq)
        return outcome

    def output_of(self, outcome: p.Finished) -> JsonValue:
        """The output for the nodes after it: the behaviour of the graph knows it."""
        return outcome.output


def asked_of(task: NodeTask, user_content: Content) -> Content:
    """The question to an agent that is a node: the user's message, lists and dictionaries as JSON, all else as its text."""
    if task.content is not None:
        return task.content
    if task.data is None:
        return user_content
    is_nested = isinstance(task.data, list | dict)
    return Content.of_text(json.dumps(task.data, ensure_ascii=False) if is_nested else str(task.data))
