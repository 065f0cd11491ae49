"""The readers of one turn in this process, each with a buffer of what it has not read yet."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.subscriptions import TurnRead
from actors.rules.delivery.answers import AnswerPartials
from actors.rules.delivery.event_buffer import EventBuffer
from actors.rules.delivery.partials import Stream, rest_of, stream_of


class TurnReaders(msgspec.Struct, eq=False):
    """Gives each event of a turn to every reader. Its caller must hold the turn's lock.

    The first reader gets the partial events that came before it. Then they are dropped, since later readers find the same text
    in the complete events. Of answers that are not complete yet, later readers get all partials, merged.

    """

    _kept: EventBuffer
    _keeps: bool
    _keeps_partials: bool
    _answers: dict[Stream, AnswerPartials] = {}
    _open: Sequence[EventBuffer] = ()
    _late: Sequence[EventBuffer] = ()
    """Those that read the log up to now, and then get the answers under way."""

    @classmethod
    def after(cls, after_seq: int, *, keeps: bool) -> TurnReaders:
        """The readers of a turn of which none wants events up to `after_seq`.

        Args:
            keeps: keep events for readers that open later. Otherwise those read the log, and memory holds only what the open
                readers have yet to get: for what is followed for hours.
        """
        return cls(EventBuffer(after_seq), keeps, keeps)

    @property
    def after_seq(self) -> int:
        """`seq` of the last complete event that was put in."""
        return self._kept.head_seq

    def put_events(self, events: Sequence[StoredEvent]) -> None:
        """Add events. The buffers skip those that come twice because two subscribers have the turn."""
        for event in events:
            if not event.seq:
                self._answers.setdefault(stream_of(event.raw), AnswerPartials()).add([event])
            elif self._answers:
                self._answers.pop(stream_of(event.raw), None)
            self._give(event)

    def _give(self, event: StoredEvent) -> None:
        if event.seq and not self._keeps:
            self._kept.expect(event.seq)
        elif event.seq or self._keeps_partials:
            self._kept.put_event(event)
        for buffer in self._open:
            buffer.put_event(event)

    def put_answers(self, partials: Sequence[StoredEvent]) -> None:
        """Add what has been streamed of answers under way, each from its beginning. Readers get what they do not have of it."""
        told: dict[Stream, list[StoredEvent]] = {}
        for partial in partials:
            told.setdefault(stream_of(partial.raw), []).append(partial)
        for stream, whole in told.items():
            known = self._answers.get(stream)
            # Of an answer that became too long no reader gets more before it is complete.
            if known is None or known.is_whole:
                for partial in rest_of(known.partials() if known is not None else (), whole):
                    self._give(partial)
            self._answers[stream] = answer = AnswerPartials()
            answer.add(whole)

    def answers_under_way(self) -> dict[Stream, AnswerPartials]:
        """The parts streamed so far of answers that are not complete."""
        return {stream: answer.copy() for stream, answer in self._answers.items()}

    def join(self, head_seq: int, answers: dict[Stream, AnswerPartials]) -> None:
        """Begin after others: read events up to `head_seq` from the log, and know what has been streamed of answers by now."""
        self._keeps = self._keeps_partials = False
        self._kept.expect(head_seq)
        self._answers = answers
        for buffer in self._open:
            buffer.expect(head_seq)
            self._begin_late(buffer)

    def skip(self, seq: int) -> None:
        """Drop the events up to `seq`, those too that have yet to come."""
        self._kept.skip(seq)
        for buffer in self._open:
            buffer.skip(seq)

    def open(self) -> EventBuffer:
        """A buffer for a new reader, with all events so far; later ones are added to it until it is closed."""
        buffer = self._kept.copy()
        self._open = (*self._open, buffer)
        if self._keeps_partials:
            self._keeps_partials = False
            self._kept.drop_partials()
        else:
            self._begin_late(buffer)
        return buffer

    def _begin_late(self, buffer: EventBuffer) -> None:
        if buffer.is_behind:
            self._late = (*self._late, buffer)
        else:
            self._put_answers_under_way(buffer)

    def catch_up(self, buffer: EventBuffer, page: TurnRead, head_seq: int) -> None:
        """Add a page of the log to a reader's buffer: see EventBuffer.catch_up."""
        buffer.catch_up(page, head_seq)
        if not buffer.is_behind and buffer in self._late:
            self._late = [each for each in self._late if each is not buffer]
            self._put_answers_under_way(buffer)

    def _put_answers_under_way(self, buffer: EventBuffer) -> None:
        partials = [partial for answer in self._answers.values() for partial in answer.partials()]
        buffer.begin_anew(partials, [stream for stream, answer in self._answers.items() if not answer.is_whole])
        for partial in partials:
            buffer.put_event(partial)

    def close(self, buffer: EventBuffer) -> None:
        """Add no more events to a reader's buffer."""
        self._open = [each for each in self._open if each is not buffer]
        self._late = [each for each in self._late if each is not buffer]

    def held(self) -> list[StoredEvent] | None:
        """All events so far; None where some of them have to be read from the log."""
        return self._kept.held()

    def copy(self) -> EventBuffer:
        """A buffer with all events so far, to which none are added."""
        return self._kept.copy()
