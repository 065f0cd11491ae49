"""Which share of new requests a server refuses unread, so that its event loop keeps up with the others.

Rules of this file:

- The loop is looked at every few milliseconds. Each look says by how much it came late, and how many requests have come since the
  one before: a loop that is late without many of them is held up by something else, which a refusal would not end.
- One long step of the loop is a burst that came in one moment, and is served. When steps in a row are long, and `LATE_IN_ALL_S`
  together, more comes than the loop can take.
- Then each late look raises the share by how late it was, and each other one lowers it a little: the share finds what has to be
  refused, and falls to nothing when less comes.
- What is refused is spread evenly: of four requests at a share of a half, it is every second one.
"""

from __future__ import annotations

LATE_S = 0.02
"""A look that comes so much too late finds a loop with a queue."""

MANY = 16
"""Requests between two looks that can hold up a loop."""

LATE_LOOKS, LATE_IN_ALL_S = 2, 0.25
MOST_RISE, FALL = 0.25, 0.01


class LoadShedding:
    """The share, from looks at an event loop.

    Attributes:
        share: of new requests that are refused, from 0 to 1.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self._late_looks = 0
        self._late_s = 0.0
        self._owed = 0.0

    def look(self, late_s: float, requests: int) -> None:
        """A look came too late by so many seconds, and so many requests have come since the last one."""
        if late_s < LATE_S or requests < MANY:
            self._late_looks, self._late_s = 0, 0.0
            self.share = max(0.0, self.share - FALL)
            return
        self._late_looks += 1
        self._late_s += late_s
        if self.share > 0 or (self._late_looks >= LATE_LOOKS and self._late_s >= LATE_IN_ALL_S):
            self.share = min(1.0, self.share + min(late_s, MOST_RISE))

    def refuses_next(self) -> bool:
        """Whether the next request is one of those that are refused."""
        self._owed += self.share
        if self._owed < 1:
            return False
        self._owed -= 1
        return True
