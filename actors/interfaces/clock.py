"""The seam to time: the machine's clock, or one that a test advances."""

from __future__ import annotations

import asyncio
from typing import Protocol

from actors.messages.event import now_s


class Clock(Protocol):
    """Tells the time, and waits."""

    def now_s(self) -> float:
        """Return seconds since the epoch, which mean the same in every process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds, at once for none or less."""
        ...


def loop_time_s() -> float:
    """The clock of the event loop that is running: seconds that only go forward."""
    return asyncio.get_running_loop().time()


class WallClock:
    """Implements `Clock` with the machine's clock."""

    def now_s(self) -> float:
        """Return seconds since the epoch."""
        return now_s()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds, at once for none or less."""
        await asyncio.sleep(seconds)
