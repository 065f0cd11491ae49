"""A program's reader of a deployment's logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from ray.exceptions import RayError

from runtime.cluster.handle import Handle
from runtime.cluster.logs.hub import LogPage
from runtime.observability.logs.lines import Line, decode_lines
from runtime.observability.logs.outlet import Sink

logger = logging.getLogger(__name__)

WAIT_S = 30.0
"""How long a request waits for lines. Nothing else is sent while agents say nothing."""

RETRY_S = 1.0
"""Time before a process is asked again that could not be reached."""

KEPT_S = 5.0
"""How long a process may take to give what it keeps."""

FROM_FIRST = "first"
"""Names no hub, so that all of its lines are given."""

LAST_S = 0.05
"""How long lines are waited for at the end that are on their way."""


async def kept_lines(handles: Sequence[Handle]) -> list[Line]:
    """All lines that the hubs of some core actors keep, each in the order in which it got them. One that is lost has none."""
    pages = await asyncio.gather(*(_page_of(handle) for handle in handles))
    return [line for batches in pages for batch in batches for line in decode_lines(batch)]


async def _page_of(handle: Handle) -> Sequence[bytes]:
    try:
        async with asyncio.timeout(KEPT_S):
            page: LogPage = await handle.poll_logs.remote(FROM_FIRST, 0, 0.0)
            return page.batches
    except (RayError, TimeoutError):
        return ()


class HubReader:
    """Reads the hubs of a deployment's core actors, and hands their lines on in this program.

    Args:
        handles: the hosts of Session actors and Runners.
        sink: gets the lines, in threads.
        from_now: leave out what was said before.
    """

    def __init__(self, handles: Sequence[Handle], sink: Sink, *, from_now: bool) -> None:
        self._hubs = [_Hub(handle, sink, "" if from_now else FROM_FIRST) for handle in handles]
        self._tasks = [asyncio.create_task(hub.follow()) for hub in self._hubs]

    async def close(self) -> None:
        """Read what is there, and stop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(hub.finish() for hub in self._hubs))


class _Hub:
    """One hub, and how far it was read."""

    def __init__(self, handle: Handle, sink: Sink, hub: str) -> None:
        self._handle = handle
        self._sink = sink
        self._hub = hub
        self._next = 0

    async def follow(self) -> None:
        """Read for as long as the task is not cancelled."""
        while True:
            try:
                await self._read(WAIT_S)
            except RayError:
                await asyncio.sleep(RETRY_S)

    async def finish(self) -> None:
        """Read what is there, and what comes within a moment."""
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(RETRY_S):
                while await self._read(LAST_S):
                    pass

    async def _read(self, wait_s: float) -> bool:
        page: LogPage = await self._handle.poll_logs.remote(self._hub, self._next, wait_s)
        self._hub, self._next = page.hub, page.next - len(page.batches)
        if page.lost:
            logger.warning(
                "%d batches of log lines of agents were lost, because they came faster than this program took them", page.lost
            )
        for batch in page.batches:
            # Noted first: when this is cancelled the thread goes on, and the batch is not to be replayed twice.
            self._next += 1
            await asyncio.shield(asyncio.to_thread(self._sink.put_lines, decode_lines(batch)))
        return bool(page.batches)
