"""Which calls of a turn wait for an answer, by its events, and whether an answer of the user is taken.

Rules of what waits:

- A call waits for the user if its tool is long-running, or asks something: for consent, or in the middle of the call.
- A response of the user ends the waiting, whatever it says. One to a question does not end the call: its tool goes on.
- A response of the agent ends the call, except the interim one of a long-running tool, which is any that is no error. In a flow
  there is none: a task is done when its agent says so.
- No call waits below an agent that is asked as a tool: it cannot pause a turn, so no answer would reach it.

Rules of `is_taken`, in the order in which they are tried (semantics.md section 4, "Pauses"):

1. A call that waits takes an answer.
2. A request that answers only what waits (`rt.answer`) is refused otherwise.
3. A call that the user has answered while this request was under way or in line takes no second answer: its sender knew of none.
4. Consent, and the answer to a tool's question, are given once, unless the tool asks again.
5. Any other answer is a later value of a long-running call, and reaches its agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

import msgspec

from actors.messages.event import USER, Event
from actors.messages.graph import NodeInfo, node_at, scope_of
from actors.messages.protocol.runs import AnyOutcome, Paused, path_of_words
from actors.messages.protocol.turns import WaitingCall
from actors.rules.routing.branches import state_key, tool_root


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What decides about an answer to a call.

    Attributes:
        is_waiting: its turn is paused, and waits for an answer to it.
        answered_seq: the position of the user's last answer to it; 0 when there is none.
        needed_consent: that answer was consent, or answered a question of its tool.
    """

    is_waiting: bool = False
    answered_seq: int = 0
    needed_consent: bool = False


def is_taken(call: CallFacts, *, only_waiting: bool, known_seq: int) -> bool:
    """True when an answer to the call is taken.

    Args:
        only_waiting: the request answers only what waits.
        known_seq: the log up to here was settled when the request came: what follows belongs to a turn that was open then, or
            that has run since.
    """
    if call.is_waiting:
        return True
    if only_waiting:
        return False
    return not call.answered_seq or (call.answered_seq <= known_seq and not call.needed_consent)


class EventCalls(NamedTuple):
    """The part of an event that is about function calls.

    Attributes:
        author, branch: of the event.
        calls: the names of the functions called, by the ids of the calls.
        responses: the ids of the calls to which it has function responses, and the keys of these.
        long_running: ids of those of its calls that wait for a response of the user.
        confirmations: ids of calls to which the user is to agree.
        inputs: ids of calls whose tools ask the user something in their middle.
        in_flow: it is of a flow.
        path: of the run of a node that has stored it, or for which the user's message is; "" for any other event.
        opens: it is a message of the user with which the turn begins or goes on.
    """

    author: str
    branch: str | None
    calls: Mapping[str, str]
    responses: Sequence[tuple[str, Collection[str]]]
    long_running: Collection[str]
    confirmations: Collection[str]
    inputs: Collection[str]
    in_flow: bool
    path: str
    opens: bool


class OpenCall(NamedTuple):
    """A function call without a response, or with a first one of its long-running tool.

    Attributes:
        author: the agent that made it.
        branch: the agent's.
        name: the function's.
        needs_consent: the user's response is not its result: it decides whether it is run, or answers a question of its tool.
        is_long_running: the user's response is its result, and what its tool returns is an interim one.
        has_response: it has such an interim response.
        in_flow: it was made in a flow, whose controller knows for how long it matters.
        path: of the run of the node that has made it.
        continues: its answer continues the turn. If not, the run that has made it is one of its agent alone, after a late answer.
    """

    author: str
    branch: str | None
    name: str
    needs_consent: bool
    is_long_running: bool = False
    has_response: bool = False
    in_flow: bool = False
    path: str = ""
    continues: bool = True


def is_interim(response: Collection[str]) -> bool:
    """True if what the tool of a long-running call has returned is not the answer, which is the user's: all but an error.

    Args:
        response: the response, or its keys.
    """
    return set(response) != {"error"}


class PendingCalls:
    """Folds the events of a turn, oldest first.

    Attributes:
        open: the calls without a response, by id.
        waiting: the ids of those that wait for the user.
        message_seq: the position of the user's last message with which the turn has begun or gone on; 0 without one.
        callers: the agents whose open calls that message answers.
    """

    __slots__ = ("_answered", "_continues", "callers", "message_seq", "open", "waiting")

    def __init__(self) -> None:
        self.open: dict[str, OpenCall] = {}
        self.waiting: dict[str, None] = {}
        self.message_seq = 0
        self.callers: tuple[str, ...] = ()
        self._answered: dict[str, CallFacts] = {}
        self._continues = True

    def fold(self, event: EventCalls, seq: int, *, is_late: bool = False) -> None:
        """Take in an event: the calls that it makes, answers and asks the user about.

        Args:
            is_late: it is an answer that came when the turn had ended.
        """
        by_user, responses = event.author == USER, event.responses
        if event.opens:
            self._fold_message(event, seq, is_late=is_late)
        for call_id, name in event.calls.items():
            needs_consent = call_id in event.confirmations
            self.open[call_id] = OpenCall(
                event.author,
                event.branch,
                name,
                needs_consent,
                call_id in event.long_running and not needs_consent and not event.in_flow,
                in_flow=event.in_flow,
                path=event.path,
                continues=self._continues,
            )
        for call_id in event.inputs:
            if call_id in self.open:
                self.open[call_id] = self.open[call_id]._replace(needs_consent=True)
        for call_id, response in responses:
            if by_user:
                self._answered[call_id] = CallFacts(answered_seq=seq, needed_consent=self._waits_for_consent(call_id))
            self._fold_response(call_id, response, by_user=by_user)
        asks = event.long_running or event.inputs
        if (responses or asks) and tool_root(event.branch) is None:
            self._fold_waiting(event, responses)

    def _fold_message(self, event: EventCalls, seq: int, *, is_late: bool) -> None:
        self.message_seq = seq
        answered = [] if is_late else [self.open.get(call_id) for call_id, _ in event.responses]
        # A run that is asked as a tool cannot pause the turn, so no answer reaches it.
        reached = [call for call in answered if call is not None and tool_root(call.branch) is None and call.continues]
        self.callers = tuple([call.author for call in reached])
        if event.path:
            # They are for the agent that works on a task with the user.
            self.callers = (*self.callers, node_at(event.path))
        self._continues = bool(self.callers) or not event.responses

    def _fold_response(self, call_id: str, response: Collection[str], *, by_user: bool) -> None:
        call = self.open.get(call_id)
        if call is None:
            return
        if not by_user and call.is_long_running and is_interim(response):
            self.open[call_id] = call._replace(has_response=True)
        elif not (by_user and call.needs_consent):
            del self.open[call_id]

    def _fold_waiting(self, event: EventCalls, responses: Sequence[tuple[str, Collection[str]]]) -> None:
        for call_id, _ in responses:
            # A call with an interim response is still open.
            if event.author == USER or call_id not in self.open:
                self.waiting.pop(call_id, None)
        for call_id in event.long_running:
            if call_id in event.calls:
                self.waiting[call_id] = None
        for call_id in event.inputs:
            if call_id in self.open:
                self.waiting[call_id] = None

    def _waits_for_consent(self, call_id: str) -> bool:
        call = self.open.get(call_id)
        return call is not None and call.needs_consent

    def facts_of(self, call_id: str) -> CallFacts:
        """The facts that decide about an answer to a call, as far as the log has them."""
        answered = self._answered.get(call_id, CallFacts())
        return replace(answered, is_waiting=call_id in self.waiting)

    def for_user(self) -> Iterator[WaitingCall]:
        """The calls at which the turn waits for the user, except those of flows, and of agents that are asked as tools."""
        for call_id, call in self.open.items():
            if (call.is_long_running or (call.needs_consent and not call.in_flow)) and tool_root(call.branch) is None:
                yield WaitingCall(call_id, call.author, call.branch)

    def under_way(self) -> dict[str, tuple[str, ...]]:
        """The functions that are called and have no response, except those that the user has to answer. By `state_key`."""
        found: dict[str, tuple[str, ...]] = {}
        for call_id, call in self.open.items():
            if call_id not in self.waiting and not call.has_response:
                run = state_key(call.author, call.branch, call.path)
                found[run] = (*found.get(run, ()), call.name)
        return found


class WaitingTask(NamedTuple):
    """An agent that works on a task with the user waits for the user's words: its turn, and the path of its run."""

    invocation_id: str
    path: str


def waiting_task(paused: Iterable[tuple[int, str, AnyOutcome]]) -> WaitingTask | None:
    """The task that the user's next words answer: of the turn that paused last. None when no task waits.

    Args:
        paused: of each paused turn of the session, where it was opened last, its id, and how it has paused.
    """
    # One turn of a session runs at a time: the one that was opened last has paused last, whatever the clocks have said.
    for _, turn, end in sorted(paused, key=itemgetter(0), reverse=True):
        # The first of its tasks that began to wait.
        if isinstance(end, Paused) and (path := next(filter(None, map(path_of_words, end.call_ids)), "")):
            return WaitingTask(turn, path)
    return None


def as_answer(words: Event, task: WaitingTask, *, is_delegate: bool) -> Event:
    """The event of the user's words, as the answer to a task.

    Args:
        is_delegate: the agent that waits works for a call of another one.
    """
    info = NodeInfo(path=task.path, isolation_scope=scope_of(task.path, is_delegate=is_delegate))
    return msgspec.structs.replace(words, invocation_id=task.invocation_id, node_info=info)
