"""How long to wait before the next attempt: the one rule for restarts, model calls and a store that is down.

There is no clock and no chance here: the caller says how often or how long it has failed, and passes a random number.

Rules of an outage of a store:

- A request that finds the store away is tried again, soon and then less often, until the store has been away for its time. From
  then on each request is tried once and fails at once, until the store is back.
- The outage has a time, not the request: a request in the middle of an outage waits for the rest of it. So a turn that needs the
  store five times to come to its end does not wait five times.
- A store that is full, or locked, can be read. So an outage that began with a write is over only after a write.
- Without requests nothing is known of a store: a failure long after the last one begins another outage.
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


LONGEST_PAUSE_S = 1.0
BACKOFF = Backoff(0.02, LONGEST_PAUSE_S)
"""Pauses between two tries."""


class StoreOutage(NamedTuple):
    """A store is away.

    Attributes:
        began_s: since when, in seconds of the caller's clock.
        last_s: when a request failed last.
        writing: a write has failed.
    """

    began_s: float
    last_s: float
    writing: bool


def after_failure(outage: StoreOutage | None, *, asked_s: float, now_s: float, writing: bool, timeout_s: float) -> StoreOutage:
    """The outage after a request failed that was sent at `asked_s`."""
    if outage is None or asked_s - outage.last_s > timeout_s + LONGEST_PAUSE_S:
        return StoreOutage(asked_s, now_s, writing)
    return StoreOutage(min(outage.began_s, asked_s), max(outage.last_s, now_s), outage.writing or writing)


def after_success(outage: StoreOutage | None, *, writing: bool) -> StoreOutage | None:
    """The outage, if it goes on, after a request succeeded."""
    return outage if outage is not None and outage.writing and not writing else None


def pause_s(outage: StoreOutage, *, now_s: float, timeout_s: float) -> float | None:
    """Seconds to wait before the next attempt; None when the time of the outage is over."""
    left_s = outage.began_s + timeout_s - now_s
    if left_s <= 0:
        return None
    return min(BACKOFF.after_time(now_s - outage.began_s), left_s)
