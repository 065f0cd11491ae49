"""Events that travel along with a message, so that the agent which gets it need not fetch them.

An agent knows the log up to its own last event, and has missed what others have said since. Where agents take turns that is
little, and it is sent along: by the Session actor when a turn begins, by an agent when it transfers the turn. What is sent along
may be of no use, and may not suffice: an agent takes in what follows the last event that it knows, and fetches what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.messages.protocol.base import StoredEvent

MAX_BYTES = 16_384
"""Of all events that travel along. Fetching more than that costs little compared to reading it."""

MAX_EVENTS = 32
"""How many of them there are at most."""


def fits(events: int, size: int) -> bool:
    """True when so many events, of `size` bytes together, may travel along."""
    return events <= MAX_EVENTS and size <= MAX_BYTES


def events_missed_by_agents(newest_first: Iterable[StoredEvent], last_spoken: Iterable[int]) -> list[StoredEvent]:
    """The end of a log that some agent has missed, and that may travel along; empty when the last speaker is the only one.

    Args:
        newest_first: the log, from its newest event back.
        last_spoken: the positions of the agents' last events, the newest first.
    """
    speakers = iter(last_spoken)
    spoken_seq = next(speakers, 0)
    events: list[StoredEvent] = []
    size = missed = 0
    for stored in newest_first:
        if stored.seq == spoken_seq:
            missed = len(events)
            spoken_seq = next(speakers, 0)
        size += len(stored.raw)
        if not spoken_seq or not fits(len(events) + 1, size):
            break
        events.append(stored)
    return events[:missed][::-1]


def following(events: Sequence[StoredEvent], seq: int) -> Sequence[StoredEvent] | None:
    """Those that come after a position; None when one between is missing, or they end before it."""
    if events[0].seq > seq + 1 or events[-1].seq < seq:
        return None
    if len(events) == 1 and events[0].seq > seq:
        return events
    after = [stored for stored in events if stored.seq > seq]
    return after if all(stored.seq == place for place, stored in enumerate(after, start=seq + 1)) else None


class HandoverEvents:
    """The events of a run, if they may travel along.

    Attributes:
        events: all of them; nothing once they are too many, or change the state, which those who get them could not know.
    """

    events: Sequence[StoredEvent] = ()
    _size = 0
    _may_travel = True

    def add(self, stored: StoredEvent, *, changes_state: bool) -> None:
        """The run has stored one more."""
        self._size += len(stored.raw)
        self._may_travel = self._may_travel and not changes_state and fits(len(self.events) + 1, self._size)
        self.events = (*self.events, stored) if self._may_travel else ()
