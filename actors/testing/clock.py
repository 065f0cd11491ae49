"""A clock for tests, whose sleeps take no time."""

from __future__ import annotations

from actors.errors.hints import explains_wrong_calls


class ManualClock:
    """Implements `actors.interfaces.clock.Clock` with a time that only `advance` and `sleep` move.

    Args:
        now_s: the time at the beginning, in seconds since the epoch.

    Attributes:
        slept: the seconds of every `sleep` so far, in order.
    """

    @explains_wrong_calls
    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self.slept: list[float] = []

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self._now_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Move the time forward by so many seconds, and return at once."""
        self.slept.append(seconds)
        self.advance(max(0.0, seconds))
