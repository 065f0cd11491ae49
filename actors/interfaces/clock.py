"""The seam between what waits and the time that passes."""

from __future__ import annotations

import asyncio
from typing import Protocol

from actors.messages.event import now_s


class Clock(Protocol):
    """Tells the time, and lets it pass."""

    def now_s(self) -> float:
        """Seconds since the epoch: also who goes on in another process has to know what they mean."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when so much time has passed, at once for none or less."""
        ...


class WallClock:
    """Implements `Clock`: the machine's."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return now_s()

    async def sleep(self, seconds: float) -> None:
        """Return when so much time has passed, at once for none or less."""
        await asyncio.sleep(seconds)
