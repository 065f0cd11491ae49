"""Users and sessions whose data is being deleted: what would write any of it waits until the deletion is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.messages.session import SessionKey

HOLD_S = 60.0
"""A hold that is not renewed ends after this time: the driver that deletes what is held was lost."""


class _Hold:
    def __init__(self) -> None:
        self.until_s = 0.0
        self.released = asyncio.Event()


class UserHolds:
    """The users that are held, and the single sessions.

    Args:
        clock: seconds that only go forward; by default those of the event loop.

    Attributes:
        on_passed: called when the wait for a hold is over; what it raises `passed` raises.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._holds: dict[tuple[str, ...], _Hold] = {}
        self.on_passed: Callable[[SessionKey], Awaitable[None]] = _nothing

    def hold_user(self, app: str, user: str) -> None:
        """Hold a user from now on, or hold on."""
        self._hold((app, user))

    def hold_session(self, key: SessionKey) -> None:
        """Hold a session from now on, or hold on."""
        self._hold(_of_session(key))

    def release(self, app: str, user: str) -> None:
        """Let go of a user; one that is not held is no error."""
        self._release((app, user))

    def release_session(self, key: SessionKey) -> None:
        """Let go of a session; one that is not held is no error. That of a user who is held stays held."""
        self._release(_of_session(key))

    def has(self, key: SessionKey) -> bool:
        """True when a session or its user is held."""
        return bool(self._holds) and self._of(key) is not None

    async def passed(self, key: SessionKey) -> None:
        """Wait until neither a session nor its user is held. Raises UserElsewhereError if the user was moved, StoreError."""
        has_waited = self._of(key) is not None
        while (hold := self._of(key)) is not None:
            left_s = hold.until_s - self._now_s()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await hold.released.wait()
        if has_waited:
            await self.on_passed(key)

    def _hold(self, what: tuple[str, ...]) -> None:
        self._holds.setdefault(what, _Hold()).until_s = self._now_s() + HOLD_S

    def _release(self, what: tuple[str, ...]) -> None:
        hold = self._holds.pop(what, None)
        if hold is not None:
            hold.released.set()

    def _of(self, key: SessionKey) -> _Hold | None:
        """The hold of a session or of its user; None: neither is held."""
        for what in ((key.app, key.user), _of_session(key)):
            hold = self._holds.get(what)
            if hold is not None and hold.until_s > self._now_s():
                return hold
            if hold is not None:
                self._release(what)
        return None

    def _now_s(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()


def _of_session(key: SessionKey) -> tuple[str, str, str]:
    return key.app, key.user, key.session


async def _nothing(_: SessionKey) -> None:
    """Does nothing."""
