"""What an agent sees while it works on tasks of a flow: the history, and a briefing (semantics.md section 7).

It sees what is relevant to its tasks: its own events, events made for its tasks or for tasks upstream of them, and events that
belong to no task. Its own events have the role `model`, those of others the role `user` with the author's name. Of other
agents' tools it sees the results but not the calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import ClassVar, NamedTuple

import msgspec

from actors.errors import AgentTreeError
from actors.layers.flows.rules.board import Board, last_tasks
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import USER, Event, RequestedInput
from actors.messages.flow import FlowMark
from actors.messages.json_types import JsonValue
from actors.rules.checks.questions import without_questions
from actors.rules.prompt.compiler import Compiler, IncludeContents, Warn, arrange
from actors.rules.prompt.history import History

END_TURN = "end_turn"
CREATE_TASKS = "create_tasks"
ASK_USER = "ask_user"
_SUCCEED = "succeed_"
_FAIL = "fail_"

NAME_LENGTH = 48
"""Characters of a task's name, which becomes part of a tool's name; models take 64 characters of that."""


def succeed_tool(task: str) -> str:
    """The name of the tool that finishes a task with its result."""
    return f"{_SUCCEED}{task}"


def fail_tool(task: str) -> str:
    """The name of the tool that gives a task up."""
    return f"{_FAIL}{task}"


def refuse_other_question(flow: str, agent: str, tool: str) -> None:
    """Check that a tool of an agent of an interactive task is no other `ask_user`. Raises AgentTreeError."""
    if tool == ASK_USER:
        raise AgentTreeError(
            f"flow {flow!r}: agent {agent!r} works on an interactive task and gets a tool {ASK_USER!r}, but has another one: "
            "rename that, or leave interactive out"
        )


def is_controllers(name: str) -> bool:
    """True for the name of such a tool, which no other tool may have in a flow."""
    return name in (END_TURN, CREATE_TASKS) or name.startswith((_SUCCEED, _FAIL))


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One task that an agent works on.

    Attributes:
        objective: what to achieve, with its placeholders filled in.
        result: what the result has to be, in words; "" for a task without one.
        parent: the name and objective of the task that it is a part of; "" without one.
        instructions: how to go about it, with its placeholders filled in; "" for none.
        context: values that belong to it, by name, as texts.
        is_interactive: the user can be asked about it.
        ended_by: the agents that may end it, when the agent is none of them; empty when it may end it itself.
    """

    name: str
    objective: str
    result: str = ""
    parent: str = ""
    instructions: str = ""
    context: Mapping[str, str] = {}
    is_interactive: bool = False
    ended_by: Sequence[str] = ()


class CompleteTask(msgspec.Struct, frozen=True, kw_only=True):
    """A complete task upstream of the agent's tasks.

    Attributes:
        objective: what was to be achieved, with its placeholders filled in.
        status: successful, failed or skipped.
        text: its result, or the reason why it has none; "" when there is neither.
    """

    name: str
    objective: str
    status: str
    text: str = ""


def briefing(briefs: Sequence[Brief], complete: Sequence[CompleteTask], peers: Sequence[str]) -> str:
    """The text: the agent's tasks, the results of tasks upstream, and how to finish a task or hand over.

    Args:
        complete: the complete tasks upstream of them.
        peers: the agents that can go on when the agent ends its turn.
    """
    return "\n\n".join(filter(None, [_tasks(briefs), _upstream(complete), _rules(briefs, peers)]))


def _tasks(briefs: Sequence[Brief]) -> str:
    listed = "\n".join(_task(brief) for brief in briefs)
    return f"You work on these tasks:\n{listed}"


def _task(brief: Brief) -> str:
    text = f"- `{brief.name}`: {brief.objective or 'no objective is given beyond its name'}"
    text += f"\n  It is a part of {brief.parent}" if brief.parent else ""
    text += f"\n  How to go about it: {brief.instructions}" if brief.instructions else ""
    text += "\n  What belongs to it:" if brief.context else ""
    text += "".join(f"\n  - {key}: {value}" for key, value in brief.context.items())
    text += f"\n  You can ask the user about it with `{ASK_USER}`." if brief.is_interactive else ""
    return text + (f"\n  Its result: {brief.result}" if brief.result else "\n  It has no result.")


def _upstream(complete: Sequence[CompleteTask]) -> str:
    if not complete:
        return ""
    listed = "\n".join(f"- `{task.name}` ({task.status}): {task.objective}" + _result(task) for task in complete)
    return f"These tasks were done before, for yours:\n{listed}"


def _result(task: CompleteTask) -> str:
    if not task.text:
        return ""
    return f"\n  {'Result' if task.status == 'successful' else 'Reason'}: {task.text}"


def _rules(briefs: Sequence[Brief], peers: Sequence[str]) -> str:
    mine = [brief.name for brief in briefs if not brief.ended_by]
    succeed, fail = (", ".join(f"`{tool(name)}`" for name in mine) for tool in (succeed_tool, fail_tool))
    sentences = []
    if mine:
        sentences.append(f"A task is done only when you have called its function: {succeed}.")
        sentences.append(f"When a task cannot be done, call {fail} and say why.")
    for brief in briefs:
        if brief.ended_by:
            sentences.append(
                f"You work on `{brief.name}`, but only {' or '.join(brief.ended_by)} can end it: when you have done your part, "
                f"call `{END_TURN}`."
            )
    beside = "beside such calls " if mine else ""
    sentences.append(f"What you write {beside}is seen by the agents that work on these tasks after you.")
    if peers:
        sentences.append(f"To let somebody else go on, call `{END_TURN}`; these can: {', '.join(peers)}.")
    return " ".join(sentences)


OBJECTIVE_LENGTH = 2_000
"""Characters of an objective that later tasks are shown."""


def shortened(objective: str) -> str:
    """An objective without what is more than OBJECTIVE_LENGTH: state that is filled in may be long."""
    return objective if len(objective) <= OBJECTIVE_LENGTH else f"{objective[:OBJECTIVE_LENGTH]}…"


def result_text(result: JsonValue) -> str:
    """A task's result, or another value, as a text; "" for None."""
    if result is None:
        return ""
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


class Origin(NamedTuple):
    """Where an event comes from: its author, and the run of a flow and the tasks that it was made for, if any."""

    author: str
    run: str = ""
    tasks: frozenset[str] = frozenset()


def is_relevant(origin: Origin, agent: str, run: str, upstream: Set[str]) -> bool:
    """True when an agent that works in a flow sees events of that origin.

    Args:
        run: the run of the flow in which it works.
        upstream: the tasks that it works on, and all tasks upstream of them.
    """
    if origin.author == agent or not origin.tasks:
        return True
    return origin.run == run and not origin.tasks.isdisjoint(upstream)


class TaskCompiler(Compiler):
    """Turns events into entries for an agent that works in a flow: others' calls and the flows' own tools are left out.

    Questions to the user are not: their answers say little without them.
    """

    def _is_quoted(self, event: Event, part: Part) -> bool:
        if part.function_call is not None:
            return event.flow is not None and part.function_call.name == ASK_USER
        if not super()._is_quoted(event, part):
            return False
        return part.function_response is None or event.flow is None or not is_controllers(part.function_response.name)


class UnansweredCall(msgspec.Struct):
    """A call of the agent in a flow to which it has not stored a response itself.

    Attributes:
        answer: the user's response; None as long as there is none.
        asked: what its tool asks the user in the middle of the call; None for nothing.
    """

    origin: Origin
    call: FunctionCall
    answer: FunctionResponse | None = None
    asked: RequestedInput | None = None


class TaskHistory(History):
    """The log of one session for one agent that works in flows.

    Attributes:
        boards: the state of every run of a flow that the log mentions.
    """

    compiler: ClassVar[type[Compiler]] = TaskCompiler

    def __init__(self, agent: str, branch: str | None = None, warn: Warn | None = None) -> None:
        super().__init__(agent, branch, warn)
        self._agent = agent
        self._origins: list[Origin] = []
        self._called_by: dict[str, Origin] = {}
        self._open: dict[str, UnansweredCall] = {}
        self.boards: dict[str, Board] = {}

    def add(self, event: Event) -> bool:
        """Add the next event of the log. Returns whether the agent sees it."""
        origin = Origin(event.author)
        mark = event.flow
        if mark is not None:
            self.board(mark.run).add(event.author, mark)
            if event.actions.agent_state == {}:
                event = self._with_objectives(event, mark)
            origin = Origin(event.author, mark.run, frozenset(mark.tasks))
            self._record_calls(event, origin)
        self._record_responses(event)
        self._hold(event.actions.requested_inputs)
        known = len(self._entries)
        for part, part_origin in self._split_by_origin(event, origin):
            entry = self._compiler.entry(part)
            if entry is not None:
                self._entries.append(entry)
                self._origins.append(part_origin)
        return len(self._entries) > known

    def board(self, run: str) -> Board:
        """The state of a run of a flow; an empty one when the log does not mention the run."""
        return self.boards.setdefault(run, Board())

    def _with_objectives(self, event: Event, mark: FlowMark) -> Event:
        """The last event of a run, preceded by what its last tasks were: their results alone say nothing to later tasks."""
        board = self.board(mark.run)
        lines = [
            f"The task `{task}` was {board.status[task]}: {mark.objectives.get(task) or shortened(board.nodes[task].objective)}"
            for task in last_tasks(board)
        ]
        said = event.content.parts if event.content is not None else ()
        parts = [Part(text="\n".join(lines)), *said] if lines else list(said)
        return msgspec.structs.replace(event, content=Content(role="model", parts=parts))

    def _record_calls(self, event: Event, origin: Origin) -> None:
        for call in event.function_calls():
            if call.id:
                self._called_by[call.id] = origin
                if event.author == self._agent:
                    self._open[call.id] = UnansweredCall(origin, call)

    def _record_responses(self, event: Event) -> None:
        for response in event.function_responses():
            call_id = response.id or ""
            if event.author == USER and call_id in self._open:
                self._open[call_id].answer = response
            elif event.author == self._agent:
                self._open.pop(call_id, None)
        for call_id, asked in event.actions.requested_inputs.items():
            if call_id in self._open:
                self._open[call_id].asked = asked
                self._open[call_id].answer = None

    def _split_by_origin(self, event: Event, origin: Origin) -> Iterator[tuple[Event, Origin]]:
        """The event. Responses that name no task, of the user or of a cancelled turn, become one event per asking task."""
        if origin.tasks or event.content is None or not any(event.function_responses()):
            yield event, origin
            return
        by_origin: dict[Origin, list[Part]] = {}
        for part in event.content.parts:
            answered = part.function_response.id if part.function_response is not None else None
            by_origin.setdefault(self._called_by.get(answered or "", origin), []).append(part)
        for of_call, parts in by_origin.items():
            split = msgspec.structs.replace(event, content=Content(role=event.content.role, parts=parts))
            yield split, Origin(event.author, of_call.run, of_call.tasks) if of_call.run else origin

    def contents(self, include: IncludeContents = "default") -> list[Content]:
        """The contents of all events, whatever tasks they were made for; `include` is ignored."""
        return without_questions(arrange(self._entries))

    def contents_for(self, run: str, tasks: Iterable[str]) -> list[Content]:
        """The contents of a request about tasks of a flow, oldest first."""
        upstream = self.board(run).upstream(tasks)
        pairs = zip(self._entries, self._origins, strict=True)
        return without_questions(arrange([entry for entry, origin in pairs if is_relevant(origin, self._agent, run, upstream)]))

    def open_calls(self, run: str) -> list[UnansweredCall]:
        """The agent's calls in that run to which it has not stored a response itself, in order."""
        return [call for call in self._open.values() if call.origin.run == run]
