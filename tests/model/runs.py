"""The run of an agent: what it does in a turn, from being started to its final response, a transfer, a pause or a failure.

A run is a generator. It says its events with `Turn.say`, yields `Waits` where it waits for the user, and is sent the
user's answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from actors import Content, Event, EventActions, Part
from tests.model.said import Tree, are_same, decision_of, pieces_of, rendered
from tests.model.shown import shown
from tests.simulation.scenarios import Node

LOST = frozenset({"ActorLostError", "AgentLostError", "StoreError", "StoreUnavailableError", "StoreConflictError"})
"""With these a run may fail at any moment: its process was lost too often, or the store did not take what it has said."""

MODEL_CALLS, TRANSFERS = "LlmCallsLimitExceededError", "TransferLimitExceededError"
"""With these a run fails that goes beyond a limit of its turn."""

LIMITS = frozenset({MODEL_CALLS, TRANSFERS})

MAX_TRANSFERS = 6


class Waits(NamedTuple):
    """A run waits for the user's responses to these calls."""

    calls: Sequence[str]


Run = Generator[Waits, Event, "Ended"]

Begins = Callable[["Turn", Node, str | None], Run]


class Ended(NamedTuple):
    """How a run has ended.

    Attributes:
        error: with what it has failed.
        escalated: an event of it, or of anything below it, has escalated.
        to: to which agent it hands over.
        said: its final response.
        left: how it goes on when its calls have their answers that stood beside the transfer.
    """

    error: str = ""
    escalated: bool = False
    to: str = ""
    said: str = ""
    left: Begins | None = None


class FailedError(Exception):
    """The run of the agent `author` fails with `error`. `escalated`: it has escalated before."""

    escalated = False

    def __init__(self, author: str, error: str) -> None:
        super().__init__(author, error)
        self.author, self.error = author, error


class StoppedError(Exception):
    """A run takes longer than the agent waits that has asked for it, and is stopped."""


class DiffersError(Exception):
    """The log says something else than it must."""


class Turn:
    """What the runs of a turn share.

    Args:
        message: with which it began.
        max_calls: of models.
        may_vary: runs side by side, or repeated ones, may use up a limit of the turn, so which of them fails is not decided.
        voided: the positions of the failures behind which the turn was retried.
        gave_up: the supervisors, each with its branch, that had given up then.

    Attributes:
        log: what has been said so far, in this turn and before it.
        asked: the agents whose models were called, each with what the model was shown.
        refused: the same of calls beyond the limit.
        ran: the calls whose tools have run.
        failures: the events of the log with which runs have failed.
        silent: the nodes of graphs that have said nothing yet.
        is_cut: runs of it were stopped at no certain place, since one beside them, or above them, has failed.
    """

    def __init__(
        self,
        tree: Tree,
        message: Event,
        max_calls: int,
        *,
        may_vary: bool,
        voided: Sequence[int] = (),
        gave_up: Collection[tuple[str, str | None]] = (),
    ) -> None:
        self.tree, self.message, self.invocation_id = tree, message, message.invocation_id
        self._limits = {MODEL_CALLS: max_calls, TRANSFERS: MAX_TRANSFERS}
        self.log: list[Event] = []
        self.asked: list[tuple[str, Sequence[Content]]] = []
        self.refused: list[tuple[str, Sequence[Content]]] = []
        self.ran: list[str] = []
        self.failures: list[Event] = []
        self.silent: set[str] = set()
        self.is_cut = False
        self.voided = voided
        self.gave_up = gave_up
        self._may_vary = may_vary
        self._used: Counter[str] = Counter()
        self._there: Mapping[Hashable, Sequence[Event]] = {}
        self._said: Counter[Hashable] = Counter()
        self._ids = count(1)

    def begin(self, before: Sequence[Event], there: Sequence[Event], meanwhile: Sequence[Event]) -> None:
        """The turn begins, or goes on with an answer.

        Args:
            before: the log up to the message, or the answer, with it.
            there: what the log has of the turn from there on, up to its next pause.
            meanwhile: what other turns have said, if this one was retried behind them.
        """
        self.log, self._there, self._said = list(before), self.tree.streams(there), Counter()
        self._meanwhile = meanwhile
        self._used.clear()

    def seen(self, author: str, branch: str | None) -> Sequence[Event]:
        """The log as it is when an agent says the next that it says."""
        found = self.following(author, branch)
        if found is None:
            return self.log
        events = sorted([*self.log, *self._meanwhile], key=lambda event: event.seq)
        return [event for event in events if 0 < event.seq < found.seq]

    def say(self, event: Event) -> Event:
        """Say something. Returns it as it stands in the log; the event itself where the log has no more.

        Raises:
            FailedError: a run has failed, as any may at any moment.
            DiffersError: the log says something else.
        """
        found = self._next(event)
        if found is not None and not are_same(event, found):
            if found.error_code in LOST:
                raise FailedError(found.author, found.error_code or "")
            raise DiffersError(f"said: {rendered(found)}\n    expected: {rendered(event)}")
        self._said[self.tree.stream_of(event)] += 1
        self.silent.discard(event.author)
        self.log += pieces_of(found or event)
        return found or event

    def following(self, author: str, branch: str | None) -> Event | None:
        """What the log has where an agent says the next that it says; None: it has no more."""
        return self._next(self.event(author, branch))

    def says_failure(self, author: str, branch: str | None) -> bool:
        """True if the log says that a run of the agent has failed, in what it says from here on."""
        stream = self.tree.stream_of(self.event(author, branch))
        return any(event.error_code for event in self._there.get(stream, ())[self._said[stream] :])

    def fail(self, author: str, branch: str | None, error: str) -> None:
        """2 Failures: an agent that fails leaves exactly one event."""
        self.failures.append(self.say(self.event(author, branch, error_code=error)))

    def is_next(self, event: Event) -> bool:
        """True if this is what the log says next."""
        found = self._next(event)
        return found is not None and are_same(event, found)

    def _next(self, event: Event) -> Event | None:
        stream = self.tree.stream_of(event)
        there, place = self._there.get(stream, ()), self._said[stream]
        return there[place] if place < len(there) else None

    def _failure(self, author: str, branch: str | None) -> str:
        """The error with which the log says that the agent's run has failed at this place; "" where it does not."""
        found = self.following(author, branch)
        return found.error_code or "" if found is not None and found.author == self.speaker(author) else ""

    def speaker(self, agent: str) -> str:
        """8 Events: the graph is the author of the event with which a node has failed that has not said something before."""
        return self.tree.parents[agent].name if agent in self.silent else agent

    def may_have_failed(self, author: str, branch: str | None) -> None:
        """Raise FailedError if the log says that this agent's run has failed here, as any may at any moment."""
        if (error := self._failure(author, branch)) in LOST:
            raise FailedError(author, error)

    def use(self, limit: str, author: str, branch: str | None) -> None:
        """2 Limits of a turn: they count the model calls, and the transfers, of all agents since the message. One more fails."""
        self._used[limit] += 1
        is_beyond, refused = self._used[limit] > self._limits[limit], self._failure(author, branch) == limit
        if self.following(author, branch) is None and self._may_vary:
            # It was stopped, and what others have said may come first.
            refused = is_beyond and not self.left()
        if refused if self._may_vary else is_beyond:
            self._used[limit] -= 1
            raise FailedError(author, limit)

    def take_back(self) -> Sequence[Event]:
        """Forget what was said and is not in the log. Returns it."""
        missing = [event for event in self.log if not event.seq]
        self.log = [event for event in self.log if event.seq]
        return missing

    def stop(self) -> None:
        """Runs were stopped, at no certain place."""
        self.take_back()
        self.is_cut = True

    def undecided_failures(self) -> Sequence[Event]:
        """The failures behind which their runs have gone on, and of which no supervisor has stored before what it has decided:
        the turn has ended in between, and was retried."""
        decisions = [event for there in self._there.values() for event in there if decision_of(event)]
        undecided: list[Event] = []
        for failure in self.failures:
            stream, above = self.tree.stream_of(failure), self.tree.lineage(failure.author)
            behind = [event.seq for event in self.left() if self.tree.stream_of(event) == stream and event.seq > failure.seq > 0]
            between = [each for each in decisions if failure.seq < each.seq < min(behind, default=0)]
            if behind and not any(decision_of(each)["child"] in above for each in between):
                undecided.append(failure)
        return undecided

    def retried_failure(self) -> Event | None:
        """The failure behind which the turn was retried, since the log has more than was said; None: it has no more.

        It is the newest that is not behind all of that, or the newest. One that is undecided comes before the others.
        """
        left, failures = self.left(), [each for each in self.failures if each.seq]
        before = [each for each in failures if any(each.seq < more.seq for more in left)]
        found = self.undecided_failures() or before or failures
        return max(found, key=lambda each: each.seq, default=None) if left else None

    def left(self) -> Sequence[Event]:
        """What the log has beyond what was said."""
        return [event for stream, there in self._there.items() for event in there[self._said[stream] :]]

    def event(self, author: str, branch: str | None, *parts: Part, role: str = "model", **more: Any) -> Event:
        """An event of the turn, with fields of its actions, or of itself."""
        acts = EventActions(**{name: more.pop(name) for name in EventActions.__struct_fields__ if name in more})
        content = Content(role=role, parts=parts) if parts else None
        return Event(invocation_id=self.invocation_id, author=author, branch=branch, content=content, actions=acts, **more)

    def new_id(self) -> str:
        """The id of a call, until it is known how the log names it."""
        return f"?{next(self._ids)}"

    def show(self, agent: str, branch: str | None, seen: Sequence[Event]) -> Sequence[Content]:
        """What the model of an agent is shown of the events that it sees."""
        self.asked.append((agent, shown(seen, agent, branch, brief="brief" in self.tree.nodes[agent].manners)))
        return self.asked[-1][1]


KINDS: dict[str, Begins] = {}
"""What agents of each kind do."""


def run(turn: Turn, node: Node, branch: str | None, begins: Begins | None = None) -> Run:
    """3 What a transfer does: the calling agent's run is over; the target runs in the same turn and on the same branch.

    Below a workflow agent, or an agent that is asked as a tool, a transfer stays: the run is that of all of them together. What
    waits for the user beside a transfer does not keep it from being followed: it goes on with the answer.

    Args:
        begins: how the first of them runs, if not from its beginning.
    """
    escalated = False
    while True:
        ended = yield from _alone(turn, node, branch, begins or KINDS[node.kind])
        escalated |= ended.escalated
        if not ended.to:
            return ended._replace(escalated=escalated)
        if ended.left is not None:
            others = run(turn, turn.tree.nodes[ended.to], branch), run(turn, node, branch, ended.left)
            ended = yield from at_once(turn, others)
            return ended._replace(escalated=escalated or ended.escalated)
        node, begins = turn.tree.nodes[ended.to], None


def at_once(turn: Turn, runs: Sequence[Run], paused: Mapping[Run, Waits] = {}) -> Run:
    """Runs side by side. They are done when each of them is, in whatever order their answers come. The first failure ends all.

    4 Pauses: a message may answer calls of several agents: each of them goes on, in the order of the answers.

    Args:
        paused: others, which wait already.
    """
    waiting = {**paused, **dict.fromkeys(runs, Waits(()))}
    going: Sequence[Run] = runs
    message: Event | None = None
    escalated, error = False, ""
    while waiting:
        for each in going:
            try:
                waiting[each] = each.send(message)  # type: ignore[arg-type]
            except StopIteration as end:
                del waiting[each]
                escalated |= end.value.escalated
                error = error or end.value.error
        if error:
            turn.stop()
            break
        if waiting:
            message = yield Waits([call for waits in waiting.values() for call in waits.calls])
            answers = [response.id for response in message.function_responses()]
            going = list(dict.fromkeys(each for answer in answers for each, waits in waiting.items() if answer in waits.calls))
    return Ended(error=error, escalated=escalated)


def _alone(turn: Turn, node: Node, branch: str | None, begins: Begins) -> Run:
    """2 Failures: an agent that fails leaves exactly one event."""
    try:
        ended = yield from begins(turn, node, branch)
        if ended.to:
            turn.use(TRANSFERS, node.name, branch)
        return ended
    except FailedError as failed:
        if failed.author not in (node.name, turn.speaker(node.name)):
            raise
        if failed.error in LOST:
            turn.stop()
        turn.fail(turn.speaker(node.name), branch, failed.error)
        return Ended(error=failed.error, escalated=failed.escalated)
