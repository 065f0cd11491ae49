"""The log as an agent sees it that is a node of a graph, or that is part of the run of one."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import msgspec

from actors.agent.session_reader import SessionReader
from actors.agent.views import AgentView
from actors.layers.graphs.rules import sight
from actors.messages import protocol as p
from actors.messages.content import Content
from actors.messages.event import USER, Event
from actors.messages.graph import NodeTask
from actors.messages.json_types import JsonValue, StateDelta
from actors.refs import SessionRef
from actors.rules.prompt.history import History


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
