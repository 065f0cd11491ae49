"""Group commit: everything that waits to be written goes into one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from actors.interfaces.stores import Write
from actors.messages.session import SessionKey


class _Request(msgspec.Struct):
    key: SessionKey
    writes: Sequence[Write]
    then: Callable[[], None]
    done: asyncio.Future[None]


class GroupCommit:
    """Writes requests in the order in which they were submitted.

    While one transaction is under way, requests gather for the next. One that cannot be written does not take other
    sessions with it; but what its own session submitted behind it fails too, until `forgive`: a log has no holes.

    Args:
        commit: does all writes in one transaction.
    """

    def __init__(self, commit: Callable[[Sequence[Write]], Awaitable[None]]) -> None:
        self._commit = commit
        self._waiting: list[_Request] = []
        self._writer: asyncio.Task[None] | None = None
        self._failed: dict[SessionKey, Exception] = {}
        self.commits = 0

    def submit(self, key: SessionKey, writes: Sequence[Write], then: Callable[[], None] = lambda: None) -> asyncio.Future[None]:
        """Have `writes` of a session written, all or none.

        Args:
            then: called once they are on disk, before the future is done and before `then` of any later request.

        Returns:
            Done when they are on disk; with the store's error when they are not.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(key, writes, then, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        return done

    def forgive(self, key: SessionKey) -> None:
        """The session was read again from the store: it may write again."""
        self._failed.pop(key, None)

    async def flush(self) -> None:
        """Wait until nothing waits to be written."""
        if self._writer is not None:
            # Not awaited as such: who waits may be cancelled, the writer may not.
            await asyncio.wait([self._writer])

    async def _write_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            if not self._failed:
                try:
                    await self._write(group)
                    continue
                except Exception:
                    # Whose fault it is shows when each is written alone.
                    pass
            for request in group:
                await self._write_alone(request)

    async def _write_alone(self, request: _Request) -> None:
        try:
            if request.key in self._failed:
                raise self._failed[request.key]
            await self._write([request])
        except Exception as error:
            self._failed.setdefault(request.key, error)
            if not request.done.done():
                request.done.set_exception(error)

    async def _write(self, group: Sequence[_Request]) -> None:
        await self._commit([write for request in group for write in request.writes])
        self.commits += 1
        for request in group:
            request.then()
            if not request.done.done():
                request.done.set_result(None)
