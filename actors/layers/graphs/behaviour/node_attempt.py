"""Runs of nodes: how far one is that has not ended, as the log has it, what comes of it, and who runs those below another one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple, Protocol

from actors.layers.graphs.definitions.edges import GraphNode
from actors.layers.graphs.definitions.nodes import RetryConfig
from actors.layers.graphs.rules.progress import Given
from actors.layers.graphs.rules.sight import UserAnswers
from actors.messages.event import Event
from actors.messages.graph import NextAttempt, NodeInfo, Route
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.protocol.runs import AnyOutcome, Failed
from actors.rules.checks.user_message import fitted


class Asked(NamedTuple):
    """A question. `seq`: its place in the log; `schema`: what the answer has to be, as a JSON schema."""

    seq: int
    schema: JsonMapping


class NodeAttempt:
    """What the log has of the latest attempt of a run.

    Args:
        number: from 1.
        after_seq: the place of the event that says that the one before has failed; 0 for the first.
        asked: the latest questions that the run has asked, by the ids of the calls.

    Attributes:
        output, routes, branch: what it has said, and where it is.
        events: so many since it began, or was called again after an answer.
        waits: the questions that it has asked since then, with their arguments.
        has_paused: a run below it has interrupted it, and all that it had written is stored.
        waits_below: those of runs below it, with their places.
        answered_below: those of runs below it that have been answered.
        last_seq: the place of its last event.
    """

    def __init__(self, number: int = 1, after_seq: int = 0, asked: Mapping[str, Asked] | None = None) -> None:
        self.number = number
        self.after_seq = after_seq
        self.asked = dict(asked or {})
        self.begin_again()
        self.branch: str | None = None
        self.last_seq = 0
        self.waits_below: dict[str, int] = {}
        self.answered_below: set[str] = set()

    def begin_again(self) -> None:
        """The function is called again: nothing that it has said before counts."""
        self.output: JsonValue = None
        self.routes: Sequence[Route] = ()
        self.events = 0
        self.waits: dict[str, JsonMapping] = {}
        self.has_paused = False

    def add(self, event: Event, answers: UserAnswers) -> None:
        """Take in an event of the attempt."""
        self._begin_again_if_answered(event.seq, answers)
        self.events += 1
        self.has_paused = event.node_info is not None and event.node_info.has_paused
        self.last_seq = event.seq
        self.output = event.output if event.output is not None else self.output
        self.routes = routes_of(event) or self.routes
        self.branch = event.branch or self.branch
        for call in event.function_calls():
            if call.id and call.id in event.long_running_tool_ids:
                self.waits[call.id] = call.args
                self.asked[call.id] = Asked(event.seq, call.args.get("response_schema") or {})

    def add_below(self, event: Event, answers: UserAnswers) -> None:
        """Take in an event of a run below this one."""
        self._begin_again_if_answered(event.seq, answers)
        self.last_seq = event.seq
        self.waits_below.update(dict.fromkeys(event.long_running_tool_ids, event.seq))
        self.answered_below.difference_update(event.long_running_tool_ids)

    def unanswered_below(self, answers: UserAnswers) -> list[str]:
        """The questions of runs below it that wait for their answers."""
        return [call_id for call_id, asked in self.waits_below.items() if answers.after(call_id, asked) is None]

    def _begin_again_if_answered(self, seq: int, answers: UserAnswers) -> None:
        if not self.is_answered(answers, seq):
            return
        self.begin_again()
        for call_id in self._answered_below(answers, seq):
            del self.waits_below[call_id]
            self.answered_below.add(call_id)

    def _answered_below(self, answers: UserAnswers, before_seq: float) -> list[str]:
        return [call_id for call_id, asked in self.waits_below.items() if answers.has_between(call_id, asked, before_seq)]

    def is_answered(self, answers: UserAnswers, before_seq: float = inf) -> bool:
        """True when the function is to be called again, for what the user has said since its last event, and before a place.

        That is an answer to one of its questions, or anything that lets the graph go on while it has some of its answers only.
        """
        if any(answers.has_between(call_id, self.last_seq, before_seq) for call_id in (*self.waits, *self.waits_below)):
            return True
        is_waiting = bool(self.waits or self.waits_below)
        return is_waiting and answers.goes_on_between(self.last_seq, before_seq) and self._has_some(answers, before_seq)

    def _has_some(self, answers: UserAnswers, before_seq: float) -> bool:
        """True when some of its questions, or of those of runs below it, have answers."""
        own = any(answers.has_between(call_id, asked.seq, before_seq) for call_id, asked in self.asked.items())
        return own or bool(self.answered_below or self._answered_below(answers, before_seq))

    def inputs(self, answers: UserAnswers) -> dict[str, JsonValue]:
        """All answers to the questions of the run."""
        found = {call_id: (answers.after(call_id, asked.seq), asked) for call_id, asked in self.asked.items()}
        return {call_id: fitted(answer.value, asked.schema) for call_id, (answer, asked) in found.items() if answer is not None}


def next_attempt(
    retry: RetryConfig | None, number: int, invocation_id: str, path: str, error_classes: Sequence[str] | None = None
) -> NextAttempt | None:
    """The attempt that follows one of a run that fails; None where there is none.

    Args:
        number: of the attempt, from 1.
        path: of the run.
        error_classes: names of the class of the error, and of those above it; None: it has not failed yet.
    """
    if retry is None or number >= retry.max_attempts:
        return None
    # By chance, and the same when the run is recalled after a loss.
    delay_s = retry.delay_s(number, random.Random(f"{invocation_id} {path} {number}").random())
    following = NextAttempt(number=number, most=retry.max_attempts, delay_s=delay_s, exceptions=retry.names)
    return following if error_classes is None or following.follows(error_classes) else None


def routes_of(event: Event) -> Sequence[Route]:
    """The routes that an event says."""
    return routes(event.actions.route) if event.actions.route is not None else ()


def routes(route: Route | list[Route]) -> Sequence[Route]:
    """The routes, of which a single one may stand alone."""
    return route if isinstance(route, list) else [route]


class NodePlace(NamedTuple):
    """A run of a node.

    Attributes:
        name: the run in the graph: `a@2`, or below another run `a@2/b@1`.
        branch: of its events.
        info: says in each event of the run which node it is from.
        since: the place in the log after which its events come.
        is_first: no node has begun before that is still at work, so all that nodes have written is known here.
    """

    name: str
    node: GraphNode
    branch: str | None
    given: Given
    info: NodeInfo
    since: int = 0
    is_first: bool = False


class NodeEnd(NamedTuple):
    """What a node leaves to the graph.

    Attributes:
        events: the last ones of the run, not stored yet; the last of them says that the run is over.
        output: what it gives to the nodes after it; None for nothing.
        waits: what the user has to answer before the run can end, as `call_ids` of Paused; then no event says that it is over.
        is_of_agent: it is that of an agent, whose own events say what it gives.
    """

    events: Sequence[Event]
    output: JsonValue = None
    routes: Sequence[Route] = ()
    waits: Sequence[str] = ()
    is_of_agent: bool = False

    @property
    def is_waiting(self) -> bool:
        """The run waits for the user, and is not over."""
        return bool(self.waits)


class NodeFailed(NamedTuple):
    """A run has failed for good. `event`: says so, and is not stored yet; None: an event says so already."""

    event: Event | None
    failed: Failed


NodeResult = NodeEnd | NodeFailed | AnyOutcome
"""What comes of a run. The outcome of an agent stands for itself only where the graph ends with it, as with a cancelled one."""


class NodeInterruptedError(BaseException):
    """A run that a function waits for has paused, so the function is interrupted: it is called again with the answer.

    Not an Exception, so that the function's own handlers let it pass. Argument: the path of that run.
    """


class KnownRun(NamedTuple):
    """A run below another one, as the log has it.

    Attributes:
        seq: the place of its output, or of its latest question; 0 without one.
        result: how it has ended, or what it waits for and nothing else; None: it has to be run.
    """

    seq: int = 0
    result: NodeEnd | NodeFailed | None = None


class RunsBelow(Protocol):
    """Runs nodes below others, whose ends the graph does not follow."""

    def known(self, name: str) -> KnownRun:
        """A run, as the log has it."""
        ...

    async def run_below(self, place: NodePlace) -> NodeResult:
        """Run a node, store its end, and return the result without the events. Raises FencedError."""
        ...

    def refused(self, place: NodePlace, error: Exception) -> NodeFailed:
        """The failure of what is around a run, because the input of that does not fit."""
        ...

    async def stop(self, node: GraphNode) -> None:
        """Stop the runs of a node that is an agent. Raises FencedError."""
        ...
