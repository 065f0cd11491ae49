"""What one reader of a turn has not been told yet, in bounded memory.

- Complete events are told in order, each once. Where there is no room for one, it and all behind it are left to the log,
  and read from there when the reader has caught up: the backlog is *behind*.
- Pieces of streamed answers have no place in the log. When they take too much room they are merged, and then left out. Of
  an answer of which a piece was left out no later piece is told: what a reader hears of an answer before it is complete is
  always how it begins.
"""

from __future__ import annotations

from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.subscriptions import TurnRead
from actors.rules.delivery.partials import Voice, merged, voice

MOST_BYTES = 1_000_000
"""What a backlog may hold, unless a single event is larger."""

OVERHEAD = 100
"""Bytes that an event takes beside its own."""


class EventBuffer:
    """See the head of this file.

    Args:
        after_seq: the place of the last event that the reader knows.
        most_bytes: what it may hold.

    Attributes:
        after_seq: the last place up to which everything was told or is held here.
        told_seq: the last place up to which everything was told.
        size: bytes held.
    """

    def __init__(self, after_seq: int = 0, most_bytes: int = MOST_BYTES) -> None:
        self.after_seq = self.told_seq = after_seq
        self.size = 0
        self._most_bytes = most_bytes
        self._head_seq = after_seq
        self._events: list[StoredEvent] = []
        self._cut_off: set[Voice] = set()

    def __len__(self) -> int:
        return len(self._events)

    @property
    def head_seq(self) -> int:
        """The last place that is known to be in the log."""
        return self._head_seq

    @property
    def is_behind(self) -> bool:
        """True when events have to be read from the log, those behind `after_seq`."""
        return self.after_seq < self._head_seq

    def expect(self, head_seq: int) -> None:
        """The log is known to reach to that place."""
        self._head_seq = max(self._head_seq, head_seq)

    def put(self, event: StoredEvent, *, has_room: bool = True) -> None:
        """An event that has just come: a complete one, or with the place 0 a piece. One that came before is passed over.

        Args:
            has_room: False leaves it to the log, or out.
        """
        if event.seq == 0:
            if not has_room or self.is_behind or (self._cut_off and voice(event.raw) in self._cut_off):
                self._cut_off.add(voice(event.raw))
                return
            self._hold(event)
            return
        if event.seq <= self._head_seq:
            return
        if self._cut_off:
            self._cut_off.discard(voice(event.raw))
        holds = has_room and not self.is_behind
        self._head_seq = event.seq
        if holds:
            self.after_seq = event.seq
            self._hold(event)

    def _hold(self, event: StoredEvent) -> None:
        self._events.append(event)
        self.size += cost(event)
        if self.size > self._most_bytes:
            self._shrink()

    def _shrink(self) -> None:
        self._events = merged(self._events)
        self._measure()
        if self.size > self._most_bytes * 3 // 4:
            # Not merged again and again for the sake of ever fewer bytes.
            self.drop_pieces()
        while self.size > self._most_bytes and len(self._events) > 1:
            self.size -= cost(self._events.pop())
            self.after_seq = self._events[-1].seq

    def drop_pieces(self) -> None:
        """Leave out every piece that is held; the rest of their answers too."""
        whole: list[StoredEvent] = []
        # Only of these: a voice that is cut off already has lost a piece behind all that is held.
        cut_off: set[Voice] = set()
        for event in self._events:
            if event.seq:
                cut_off.discard(voice(event.raw))
                whole.append(event)
            else:
                cut_off.add(voice(event.raw))
        self._cut_off |= cut_off
        self._events = whole
        self._measure()

    def _measure(self) -> None:
        self.size = sum(map(cost, self._events))

    def catch_up(self, page: TurnRead, head_seq: int) -> None:
        """Take in what was read from the log behind `after_seq`, as much as there is room for, but something.

        Args:
            page: what stands in the log up to its end and is not in it is not for the reader.
            head_seq: what `head_seq` was when the page was asked for. Where a log ends that ought to reach there, the rest
                cannot be seen any more.
        """
        read_to_seq = page.read_to_seq if page.more else max(page.read_to_seq, head_seq)
        self._head_seq = max(self._head_seq, read_to_seq)
        for event in page.events:
            if event.seq <= self.after_seq:
                continue
            if self._events and self.size + cost(event) > self._most_bytes:
                return
            self._events.append(event)
            self.size += cost(event)
            self.after_seq = event.seq
        self.after_seq = max(self.after_seq, read_to_seq)

    def skip(self, seq: int) -> None:
        """The reader does not want to be told what stands up to that place."""
        self._events = [event for event in self._events if not 0 < event.seq <= seq]
        self.after_seq = max(self.after_seq, seq)
        self.told_seq = max(self.told_seq, seq)
        self._head_seq = max(self._head_seq, seq)
        self._measure()

    def give_up(self) -> None:
        """What is in the log and not here will not be told."""
        self.after_seq = self._head_seq

    def take(self) -> list[StoredEvent]:
        """All that is held, which is told with this."""
        events, self._events = self._events, []
        self.size = 0
        self.told_seq = self.after_seq
        return events

    def copy(self) -> EventBuffer:
        """Another one with the same in it, for another reader."""
        other = EventBuffer(self.after_seq, self._most_bytes)
        other.size = self.size
        other.told_seq = self.told_seq
        other._head_seq = self._head_seq
        other._events = list(self._events)
        other._cut_off = set(self._cut_off)
        return other


def cost(event: StoredEvent) -> int:
    """Bytes that an event takes."""
    return len(event.raw) + OVERHEAD
