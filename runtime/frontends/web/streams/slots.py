"""How many streams a server has open, and how they end when it stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from runtime.frontends.web.problems import TooManyStreamsError


class Slot:
    """The place of one stream, taken before anything is begun for it: what the server has no room to follow must not run.

    As a context manager it is free at the end of the block, unless the block has handed it on with `keep`.

    Args:
        give_back: called once, when the place is free.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self._is_kept = False

    def keep(self) -> None:
        """Hand the place on to a response, which frees it."""
        self._is_kept = True

    def free(self) -> None:
        """Give the place back. Repeated calls do nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_kept:
            self.free()


class StreamSlots:
    """Counts open streams, and waiting requests, which hold a turn just so.

    Args:
        for_user: how many a user may have open; a principal without a user counts as one.
        in_all: how many the server has open at most.
    """

    def __init__(self, for_user: int, in_all: int) -> None:
        self._for_user = for_user
        self._in_all = in_all
        self._open: Counter[str | None] = Counter()
        self._taken = 0
        self._closing: asyncio.Event | None = None
        self._is_closed = False

    @property
    def open(self) -> int:
        """The number of open streams."""
        return self._taken

    def refusal(self, unread: int = 0) -> TooManyStreamsError | None:
        """Why no request gets a place; None when there may be one.

        Args:
            unread: so many requests will ask before.
        """
        if self._taken + unread < self._in_all:
            return None
        return TooManyStreamsError(f"this server has {self._in_all} streams open, which is its limit")

    def take(self, user_id: str | None) -> Slot:
        """Take a place.

        Args:
            user_id: whose it is; None: that of a principal for any user, which is counted with the server only.

        Raises:
            TooManyStreamsError: as many are taken as there may be.
        """
        if (refusal := self.refusal()) is not None:
            raise refusal
        if user_id is not None and self._open[user_id] >= self._for_user:
            raise TooManyStreamsError(f"user {user_id!r} has {self._for_user} streams open, which is the limit for a user")
        self._open[user_id] += 1
        self._taken += 1
        return Slot(lambda: self._give_back(user_id))

    def _give_back(self, user_id: str | None) -> None:
        self._open[user_id] -= 1
        self._taken -= 1
        if not self._open[user_id]:
            del self._open[user_id]

    async def wait_until_closing(self) -> None:
        """Wait until the server stops."""
        if self._closing is None:
            # Made on the loop of the first stream.
            self._closing = asyncio.Event()
            if self._is_closed:
                self._closing.set()
        await self._closing.wait()

    def close(self) -> None:
        """End all streams, those too that begin from now on: the server stops."""
        self._is_closed = True
        if self._closing is not None:
            self._closing.set()
