"""A clock for tests in which nobody waits."""

from __future__ import annotations


class ManualClock:
    """Implements `actors.interfaces.clock.Clock`: time stands still, but for who sleeps it jumps to when he wakes.

    Args:
        now_s: where it begins, in seconds since the epoch.

    Attributes:
        slept: for how many seconds somebody has slept, in order.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self.slept: list[float] = []

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self.slept.append(seconds)
        self.advance(max(0.0, seconds))
