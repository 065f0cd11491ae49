"""The newest lines of a deployment, kept in a process that programs can ask for them."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from runtime.observability.logs.events import DeploymentEvent, EventRing
from runtime.observability.logs.lines import decode_lines

MAX_BYTES = 1024 * 1024
"""Lines that a hub keeps for programs that read late; older ones are in the files."""


class LogPage(NamedTuple):
    """Some batches of lines.

    Attributes:
        hub: names the hub; another one after its process was lost.
        batches: encoded lines, see `runtime.observability.logs.lines.encode_lines`.
        next: the number of the batch that will follow.
        lost: batches that were dropped before these.
    """

    hub: str
    batches: list[bytes]
    next: int
    lost: int = 0


class LogHub:
    """Keeps batches of lines under ascending numbers, and events of the deployment. Batches may come from any thread."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._batches: deque[bytes] = deque()
        self._bytes = 0
        self._next = 0
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._events = EventRing()

    def put_events(self, batch: bytes) -> None:
        """Keep events of the deployment: see LogWay."""
        self._events.add_lines(decode_lines(batch))

    def add_events(self, events: Sequence[DeploymentEvent]) -> None:
        """Keep events that the hub of another process has kept."""
        self._events.add(events)

    def events(self) -> Sequence[DeploymentEvent]:
        """The newest events, in the order in which they came."""
        return self._events.all()

    def put_batch(self, batch: bytes) -> None:
        """Add a batch; the oldest ones go when there is too much."""
        with self._lock:
            self._batches.append(batch)
            self._bytes += len(batch)
            self._next += 1
            while self._bytes > MAX_BYTES and len(self._batches) > 1:
                self._bytes -= len(self._batches.popleft())
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    async def page(self, hub: str, first: int, wait_s: float) -> LogPage:
        """The batches from a number on.

        Args:
            hub: the hub that the number is of; "" gives no batches, but the number of the next one.
            first: the number.
            wait_s: how long to wait while there are none.
        """
        if not hub:
            return LogPage(self._id, [], self._next)
        if hub != self._id:
            first = 0
        event = asyncio.Event()
        with self._lock:
            if first >= self._next:
                self._waiting.add((asyncio.get_running_loop(), event))
        if first >= self._next and wait_s:
            try:
                async with asyncio.timeout(wait_s):
                    await event.wait()
            except TimeoutError:
                pass
        with self._lock:
            self._waiting.discard((asyncio.get_running_loop(), event))
            oldest = self._next - len(self._batches)
            batches = list(self._batches)[max(first - oldest, 0) :]
            return LogPage(self._id, batches, self._next, max(oldest - first, 0))
