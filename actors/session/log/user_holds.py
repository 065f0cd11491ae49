"""Users whose data is being deleted: what would write any of it waits until the deletion is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from actors.messages.session import SessionKey

HOLD_S = 60.0
"""A hold that is not renewed ends after this time: the driver that deletes the user was lost."""


class _Hold:
    def __init__(self) -> None:
        self.until_s = 0.0
        self.released = asyncio.Event()


class UserHolds:
    """The users that are held.

    Args:
        clock: seconds that only go forward; by default those of the event loop.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._holds: dict[tuple[str, str], _Hold] = {}

    def hold_user(self, app: str, user: str) -> None:
        """Hold a user from now on, or hold on."""
        self._holds.setdefault((app, user), _Hold()).until_s = self._now_s() + HOLD_S

    def release(self, app: str, user: str) -> None:
        """Let go of a user; one that is not held is no error."""
        hold = self._holds.pop((app, user), None)
        if hold is not None:
            hold.released.set()

    def has(self, key: SessionKey) -> bool:
        """True when the user of a session is held."""
        if not self._holds:
            return False
        hold = self._holds.get((key.app, key.user))
        if hold is not None and hold.until_s <= self._now_s():
            self.release(key.app, key.user)
            return False
        return hold is not None

    async def passed(self, key: SessionKey) -> None:
        """Wait until the user of a session is not held."""
        while self.has(key):
            hold = self._holds[key.app, key.user]
            left_s = hold.until_s - self._now_s()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await hold.released.wait()

    def _now_s(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()
