"""How far a run of a node is that has not ended, as the log has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from actors.messages.event import Event
from actors.messages.graph import Route
from actors.messages.json_types import JsonMapping, JsonValue
from actors.rules.graph.answers import UserAnswers


class NodeAttempt:
    """What the log has of the latest attempt of a run.

    Args:
        number: from 1.
        asked: the places of the latest questions that the run has asked, by the ids of the calls.

    Attributes:
        output, routes, branch: what it has said, and where it is.
        events: so many since it began, or was called again after an answer.
        waits: the questions that it has asked since then.
        last_seq: the place of its last event.
    """

    def __init__(self, number: int = 1, asked: Mapping[str, int] | None = None) -> None:
        self.number = number
        self.asked = dict(asked or {})
        self.begin_again()
        self.branch: str | None = None
        self.last_seq = 0

    def begin_again(self) -> None:
        """The function is called again: nothing that it has said before counts."""
        self.output: JsonValue = None
        self.routes: Sequence[Route] = ()
        self.events = 0
        self.waits: dict[str, JsonMapping] = {}

    def add(self, event: Event, answers: UserAnswers) -> None:
        """Take in an event of the attempt."""
        if self.is_answered(answers, event.seq):
            self.begin_again()
        self.events += 1
        self.last_seq = event.seq
        self.output = event.output if event.output is not None else self.output
        self.routes = routes_of(event) or self.routes
        self.branch = event.branch or self.branch
        for call in event.function_calls():
            if call.id and call.id in event.long_running_tool_ids:
                self.waits[call.id] = call.args
                self.asked[call.id] = event.seq

    def is_answered(self, answers: UserAnswers, before_seq: float = inf) -> bool:
        """True when the user has answered one of its questions since its last event, and before a place."""
        found = (answers.after(call_id, self.last_seq) for call_id in self.waits)
        return any(answer is not None and answer.seq < before_seq for answer in found)

    def inputs(self, answers: UserAnswers) -> dict[str, JsonValue]:
        """All answers to the questions of the run."""
        found = {call_id: answers.after(call_id, seq) for call_id, seq in self.asked.items()}
        return {call_id: answer.value for call_id, answer in found.items() if answer is not None}


def routes_of(event: Event) -> Sequence[Route]:
    """The routes that an event says."""
    return routes(event.actions.route) if event.actions.route is not None else ()


def routes(route: Route | list[Route]) -> Sequence[Route]:
    """The routes, of which a single one may stand alone."""
    return route if isinstance(route, list) else [route]
