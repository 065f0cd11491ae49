"""How long to wait before the next attempt: the one rule for restarts, model calls and a store that is down.

There is no clock and no chance here: the caller says how often or how long it has failed, and passes a random number.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_DOUBLINGS = 64
"""Beyond it every wait is the longest, and a float would overflow at 1,024."""


class Backoff(NamedTuple):
    """Waits that grow from the first to the longest.

    Attributes:
        first_s: the shortest wait.
        longest_s: where growing ends; it holds also when `first_s` is longer.
    """

    first_s: float
    longest_s: float

    def after_attempts(self, failed: int, chance: float = 0.0) -> float:
        """Seconds to wait after a number of failed attempts: twice as long after each.

        Args:
            failed: attempts that have failed, from 1.
            chance: from 0 to 1; shortens the wait, at 1 to half, so that callers which failed together do not retry together.
        """
        return min(self.first_s * 2.0 ** min(failed - 1, MAX_DOUBLINGS), self.longest_s) * (1 - chance / 2)

    def after_time(self, elapsed_s: float) -> float:
        """Seconds to wait when attempts have failed for `elapsed_s`: half of that, so that waits grow by the time they take."""
        return min(max(self.first_s, elapsed_s / 2), self.longest_s)
