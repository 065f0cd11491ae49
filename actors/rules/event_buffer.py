"""The events of a turn that one reader has yet to get, in bounded memory.

- Complete events are delivered in order, each once. Where there is no room for one, it and all later ones are left to the log,
  and read from there when the reader has taken what is held: the buffer is *behind* until then.
- Partials have no position in the log. When they take too much room they are merged, then dropped. After a dropped partial, later
  partials of the same response are dropped, too: what a reader gets of a response before it is complete is always its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.subscriptions import TurnRead
from actors.rules.partials import Stream, merged, stream_of

MAX_BYTES = 1_000_000
"""What a buffer may hold, unless a single event is larger."""

OVERHEAD = 100
"""Bytes that an event takes beside its own."""


class EventBuffer:
    """Holds the events of a turn for one reader, and knows what has to be read from the log.

    Args:
        after_seq: the last position that the reader knows.
        max_bytes: what it may hold.

    Attributes:
        after_seq: every event up to this position was delivered or is held here.
        delivered_seq: every event up to this position was delivered.
        size: bytes held.
    """

    size = 0
    _cut_off: frozenset[Stream] = frozenset()

    def __init__(self, after_seq: int = 0, max_bytes: int = MAX_BYTES) -> None:
        self.after_seq = self.delivered_seq = self._head_seq = after_seq
        self._max_bytes = max_bytes
        self._events: list[StoredEvent] = []

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[StoredEvent]:
        """The events that it holds."""
        return iter(self._events)

    @property
    def head_seq(self) -> int:
        """The last position that is known to be in the log."""
        return self._head_seq

    @property
    def is_behind(self) -> bool:
        """True when events after `after_seq` have to be read from the log."""
        return self.after_seq < self._head_seq

    @property
    def has_news(self) -> bool:
        """True when it holds events, or is behind."""
        return bool(self._events) or self.after_seq < self._head_seq

    def expect(self, head_seq: int) -> None:
        """Note that the log reaches to that position."""
        self._head_seq = max(self._head_seq, head_seq)

    def put_event(self, event: StoredEvent, *, has_room: bool = True) -> None:
        """Add a new event: a complete one, or with position 0 a partial. A complete one that came before is ignored.

        Args:
            has_room: False leaves a complete event to the log, and drops a partial.
        """
        if event.seq == 0:
            if not has_room or self.is_behind or (self._cut_off and stream_of(event.raw) in self._cut_off):
                self._cut_off |= {stream_of(event.raw)}
                return
            self._hold(event)
            return
        if event.seq <= self._head_seq:
            return
        if self._cut_off:
            self._cut_off -= {stream_of(event.raw)}
        holds = has_room and self.after_seq >= self._head_seq
        self._head_seq = event.seq
        if holds:
            self.after_seq = event.seq
            self._hold(event)

    def begin_anew(self, answers: Sequence[StoredEvent], cut_off: Iterable[Stream] = ()) -> None:
        """Note that the reader gets these answers under way from their beginnings, and nothing of those of `cut_off`."""
        self._cut_off -= {stream_of(partial.raw) for partial in answers}
        self._cut_off |= frozenset(cut_off)

    def _hold(self, event: StoredEvent) -> None:
        self._events.append(event)
        self.size += cost(event)
        if self.size > self._max_bytes:
            self._shrink()

    def _shrink(self) -> None:
        self._events = merged(self._events)
        self._measure()
        if self.size > self._max_bytes * 3 // 4:
            # Merging again and again would free fewer and fewer bytes.
            self.drop_partials()
        while self.size > self._max_bytes and len(self._events) > 1:
            self.size -= cost(self._events.pop())
            self.after_seq = self._events[-1].seq

    def drop_partials(self) -> None:
        """Drop every partial that is held, and with them the later partials of the same responses."""
        if not self._events:
            return
        whole: list[StoredEvent] = []
        # Only streams of held partials are looked at: one that is cut off already has lost a partial after all that is held.
        cut_off: set[Stream] = set()
        for event in self._events:
            if event.seq:
                cut_off.discard(stream_of(event.raw))
                whole.append(event)
            else:
                cut_off.add(stream_of(event.raw))
        self._cut_off |= cut_off
        self._events = whole
        self._measure()

    def _measure(self) -> None:
        self.size = sum(map(cost, self._events))

    def catch_up(self, page: TurnRead, head_seq: int) -> None:
        """Take in events that were read from the log after `after_seq`: as many as there is room for, but at least one.

        Args:
            page: events of the log that it leaves out are not for the reader.
            head_seq: `head_seq` at the time when the page was asked for. If the log ends before it, the rest was rewound.
        """
        read_to_seq = page.read_to_seq if page.more else max(page.read_to_seq, head_seq)
        self._head_seq = max(self._head_seq, read_to_seq)
        for event in page.events:
            if event.seq <= self.after_seq:
                continue
            if self._events and self.size + cost(event) > self._max_bytes:
                return
            self._events.append(event)
            self.size += cost(event)
            self.after_seq = event.seq
        self.after_seq = max(self.after_seq, read_to_seq)

    def skip(self, seq: int) -> None:
        """Drop the events up to that position: the reader does not want them."""
        if seq > self.after_seq:
            self.after_seq = seq
        if seq > self.delivered_seq:
            self.delivered_seq = seq
        if seq > self._head_seq:
            self._head_seq = seq
        if self._events:
            self._events = [event for event in self._events if not 0 < event.seq <= seq]
            self._measure()

    def give_up(self) -> None:
        """Leave out the events that would have to be read from the log."""
        self.after_seq = self._head_seq

    def take_events(self) -> list[StoredEvent]:
        """Remove and return all events that are held: they are delivered."""
        events, self._events = self._events, []
        self.size = 0
        self.delivered_seq = self.after_seq
        return events

    def held(self) -> list[StoredEvent] | None:
        """The events that it holds; None when it is behind."""
        return None if self.after_seq < self._head_seq else self._events.copy()

    def copy(self) -> EventBuffer:
        """Another buffer with the same events, for another reader."""
        other = EventBuffer(self.after_seq, self._max_bytes)
        other.size = self.size
        other.delivered_seq = self.delivered_seq
        other._head_seq = self._head_seq
        other._events = list(self._events)
        other._cut_off = self._cut_off
        return other


def cost(event: StoredEvent) -> int:
    """Bytes that an event takes in a buffer."""
    return len(event.raw) + OVERHEAD
