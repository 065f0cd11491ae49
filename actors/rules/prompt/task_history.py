"""What an agent sees while it works on tasks of a flow (semantics.md section 7).

Of the log only what is relevant to its tasks: what it made itself, what was made for one of the tasks or for something
upstream of them, and what belongs to no task. Told from its point of view: its own events in the role `model`, those of
others in the role `user` with the name of who speaks, and of the others' tools only what they returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

import msgspec

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER, Event
from actors.rules.flow.board import Board
from actors.rules.flow.tool_names import is_controllers
from actors.rules.prompt.arrange import IncludeContents, arrange
from actors.rules.prompt.compiler import FOREIGN_MARK, Compiler, Entry, Warn, is_told, quote
from actors.rules.prompt.history import History


class Origin(NamedTuple):
    """Where an event comes from: who made it, in which run of which flow, for which tasks of it."""

    author: str
    run: str = ""
    tasks: frozenset[str] = frozenset()


def is_relevant(origin: Origin, agent: str, run: str, upstream: Set[str]) -> bool:
    """True when an event is shown to an agent.

    Args:
        run: the run of the flow that the agent works in.
        upstream: the tasks that it works on, with everything upstream of them.
    """
    if origin.author == agent or not origin.tasks:
        return True
    return origin.run == run and not origin.tasks.isdisjoint(upstream)


class TaskCompiler(Compiler):
    """Turns events into entries for an agent that works in a flow."""

    def _foreign(self, event: Event, content: Content) -> Entry | None:
        in_flow = event.flow is not None
        self._others_calls.update(call.id for call in content.function_calls() if call.id)
        told = [quote(event.author, part) for part in content.parts if is_told(part) and _is_shown(part, in_flow=in_flow)]
        if not told:
            return None
        return Entry(invocation_id=event.invocation_id, content=Content(role=USER, parts=[Part(text=FOREIGN_MARK), *told]))


def _is_shown(part: Part, *, in_flow: bool) -> bool:
    if part.function_call is not None:
        return False
    return part.function_response is None or not (in_flow and is_controllers(part.function_response.name))


class OpenCall(msgspec.Struct):
    """A call of the agent's own in a flow that it has not answered itself.

    Attributes:
        origin: where it was made.
        answer: what the user has answered, None as long as nobody has.
    """

    origin: Origin
    call: FunctionCall
    answer: FunctionResponse | None = None


class TaskHistory(History):
    """The log of one session for one agent that works in flows.

    Attributes:
        boards: the flows' runs that the log tells of.
    """

    def __init__(self, agent: str, branch: str | None = None, warn: Warn | None = None) -> None:
        super().__init__(agent, branch)
        self._agent = agent
        self._compiler = TaskCompiler(agent, branch, warn)
        self._origins: list[Origin] = []
        self._called_by: dict[str, Origin] = {}
        self._open: dict[str, OpenCall] = {}
        self.boards: dict[str, Board] = {}

    def add(self, event: Event) -> None:
        """Take in the next event of the log."""
        origin = Origin(event.author)
        if event.flow is not None:
            self.board(event.flow.run).add(event.author, event.flow)
            origin = Origin(event.author, event.flow.run, frozenset(event.flow.tasks))
            self._keep_calls(event, origin)
        self._note_answers(event)
        for piece, piece_origin in self._pieces(event, origin):
            entry = self._compiler.entry(piece)
            if entry is not None:
                self._entries.append(entry)
                self._origins.append(piece_origin)

    def board(self, run: str) -> Board:
        """How far a run of a flow is; of one that the log does not know, an empty one."""
        return self.boards.setdefault(run, Board())

    def _keep_calls(self, event: Event, origin: Origin) -> None:
        for call in event.function_calls():
            if call.id:
                self._called_by[call.id] = origin
                if event.author == self._agent:
                    self._open[call.id] = OpenCall(origin, call)

    def _note_answers(self, event: Event) -> None:
        for response in event.function_responses():
            call_id = response.id or ""
            if event.author == USER and call_id in self._open:
                self._open[call_id].answer = response
            elif event.author == self._agent:
                self._open.pop(call_id, None)

    def _pieces(self, event: Event, origin: Origin) -> Iterator[tuple[Event, Origin]]:
        """The event; or, of a user's answers to calls that were made for tasks, each task's by itself, for it belongs there."""
        if event.author != USER or event.content is None or not any(event.function_responses()):
            yield event, origin
            return
        by_origin: dict[Origin, list[Part]] = {}
        for part in event.content.parts:
            answered = part.function_response.id if part.function_response is not None else None
            by_origin.setdefault(self._called_by.get(answered or "", origin), []).append(part)
        for of_call, parts in by_origin.items():
            piece = msgspec.structs.replace(event, content=Content(role=event.content.role, parts=parts))
            yield piece, Origin(event.author, of_call.run, of_call.tasks) if of_call.run else origin

    def contents(self, include: IncludeContents = "default") -> list[Content]:
        """Everything, whatever it was made for; `include` plays no part."""
        return arrange(self._entries)

    def contents_for(self, run: str, tasks: Iterable[str]) -> list[Content]:
        """The contents of a request about tasks of a flow, oldest first."""
        upstream = self.board(run).upstream(tasks)
        pairs = zip(self._entries, self._origins, strict=True)
        return arrange([entry for entry, origin in pairs if is_relevant(origin, self._agent, run, upstream)])

    def open_calls(self, run: str) -> list[OpenCall]:
        """The agent's own calls in that run that it has not answered itself, in order."""
        return [call for call in self._open.values() if call.origin.run == run]
