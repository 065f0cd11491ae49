"""What has been streamed of answers that are not complete yet, so that a reader that comes late gets them from the beginning.

- An answer is what one agent says on one branch (a *stream*) until its complete event: the partials of one model response.
- A partial is counted within its answer. One that comes twice is known by its number, and one that comes after a gap shows that
  the beginning is not here: it was in the memory of a process that was lost.
- A run that was lost answers anew: the partials of the lost run are void.
- What is kept of an answer is merged, and bounded. Of a longer answer nothing is kept: late readers get it when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.messages.protocol.base import StoredEvent
from actors.rules.delivery.partials import Stream, id_of, merged, stream_of

MERGE_BYTES = 32_000
"""Partials that are kept as they came, before they are merged."""

MAX_BYTES = 1_000_000
"""What is kept of one answer at most."""


class AnswerId(NamedTuple):
    """Names an answer: the turn's epoch, the run that gives it, and its number in that run."""

    epoch: int
    run: int
    number: int


class Told(NamedTuple):
    """What some partials bring.

    Attributes:
        new: those that have not come before.
        lacks_beginning: they cannot be delivered, since the ones before them are not known; the whole answer has to come again.
        begins_again: readers may have another beginning of this answer, and have to compare it with what is kept here.
    """

    new: Sequence[StoredEvent] = ()
    lacks_beginning: bool = False
    begins_again: bool = False


class AnswerPartials:
    """The partials of one answer.

    Attributes:
        count: how many have come.
        event_id: of the event that they are pieces of; "" before the first one.
        is_whole: False when the answer became too long, and nothing of it is kept.
    """

    def __init__(self) -> None:
        self.count = 0
        self.event_id = ""
        self.is_whole = True
        self._partials: list[StoredEvent] = []
        self._size = 0
        self._merge_at = MERGE_BYTES

    def add(self, partials: Sequence[StoredEvent]) -> None:
        """Take in the next partials."""
        if partials and not self.event_id:
            self.event_id = id_of(partials[0].raw)
        self.count += len(partials)
        if not self.is_whole:
            return
        self._partials += partials
        self._size += sum(len(partial.raw) for partial in partials)
        if self._size > self._merge_at:
            self._merge()

    def _merge(self) -> None:
        self._partials = merged(self._partials)
        self._size = sum(len(partial.raw) for partial in self._partials)
        self._merge_at = self._size + MERGE_BYTES
        if self._size > MAX_BYTES:
            self.is_whole = False
            self._partials = []

    def copy(self) -> AnswerPartials:
        """Another one with the same partials."""
        other = AnswerPartials()
        other.count, other.event_id, other.is_whole = self.count, self.event_id, self.is_whole
        other._partials = self.partials()
        other._size, other._merge_at = self._size, self._merge_at
        return other

    def partials(self) -> list[StoredEvent]:
        """All of it, merged; empty when it is not whole."""
        self._partials = merged(self._partials)
        return list(self._partials)


class AnswersUnderWay:
    """The answers that are under way in one turn.

    Args:
        invocation_id: of the turn.
    """

    def __init__(self, invocation_id: str = "") -> None:
        self.invocation_id = invocation_id
        self._answers: dict[Stream, tuple[AnswerId, AnswerPartials]] = {}
        self._void: set[Stream] = set()

    def __bool__(self) -> bool:
        return bool(self._answers)

    def tell(self, answer: AnswerId, first: int, partials: Sequence[StoredEvent], *, again: bool = False) -> Told:
        """Take in partials of an answer.

        Args:
            first: how many partials of the answer came before them.
            again: they are the whole answer so far, since its beginning was not known here.
        """
        if not partials:
            return Told()
        stream = stream_of(partials[0].raw)
        known, begins_again = self._answers.get(stream), again
        if known is None or known[0] != answer:
            if first > 0:
                return Told(lacks_beginning=True)
            begins_again = again or known is not None or stream in self._void
            self._void.discard(stream)
            known = self._answers[stream] = (answer, AnswerPartials())
        gap = first - known[1].count
        if gap > 0:
            return Told(lacks_beginning=True)
        new = partials[-gap:]
        known[1].add(new)
        return Told(new, begins_again=begins_again)

    def complete(self, raw: bytes) -> None:
        """Forget an answer: its complete event is in the log."""
        if self._answers or self._void:
            stream = stream_of(raw)
            self._answers.pop(stream, None)
            self._void.discard(stream)

    def complete_stored(self, events: Iterable[StoredEvent]) -> None:
        """Forget the answers whose complete events are among these, which were read from the log."""
        for raw in (event.raw for event in events if self._answers):
            known = self._answers.get(stream_of(raw))
            if known is not None and known[1].event_id and known[1].event_id == id_of(raw):
                self.complete(raw)

    def drop_runs(self, runs: Iterable[int] | None = None) -> None:
        """Forget the answers of runs that were lost; None: of all."""
        lost = None if runs is None else set(runs)
        for stream, (answer, _) in list(self._answers.items()):
            if lost is None or answer.run in lost:
                del self._answers[stream]
                self._void.add(stream)

    def partials(self) -> list[StoredEvent]:
        """All answers as streamed so far, merged, each from its beginning."""
        return [partial for _, answer in self._answers.values() for partial in answer.partials()]

    def cut_off(self) -> list[Stream]:
        """The streams of answers of which nothing is kept."""
        return [stream for stream, (_, answer) in self._answers.items() if not answer.is_whole]
