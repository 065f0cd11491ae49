"""Logs of a deployment on Ray: from the processes of agents through the Runner's, and the Session actor's, to programs."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ray.exceptions import RayError

from actors.interfaces.telemetry import RunFacts, in_run
from runtime.cluster.ray.nodes import logs_folder
from runtime.cluster.ray.process import output_name
from runtime.cluster.transport.ray_actors import Handle
from runtime.observability.logs.capture import Outlet, Sink, start_capture
from runtime.observability.logs.kept import DeploymentEvent, EventRing, event_of, without_quiet_events
from runtime.observability.logs.lines import Line, decode_lines, encode_lines
from runtime.observability.logs.sinks import LogFiles, LogOptions

logger = logging.getLogger(__name__)


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
        """Keep the events of the deployment that a batch of lines tells: they are kept for longer."""
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


SEND_S = 30.0
"""How long a process waits for the Runner to take its lines. Lines that come meanwhile wait, or are dropped."""

LAST_S = 1.0
"""How long a task, or an agent that stops, may take to hand on its last lines."""


class ProcessLogs:
    """What one process logs and prints, on its way to its files and to a hub.

    Args:
        role: names the file of what belongs to no agent.
        way: gets batches of encoded lines, in a thread of its own.
    """

    def __init__(self, options: LogOptions, role: str, way: LogHub | ToRunner) -> None:
        def encoded(lines: Sequence[Line]) -> None:
            events = [line for line in lines if event_of(line) is not None]
            if events:
                way.put_events(encode_lines(events))
                lines = without_quiet_events(lines, options.level)
            if lines:
                way.put_batch(encode_lines(lines))

        folder = options.folder or _ray_folder()
        self._files = LogFiles(options, folder, role) if folder else None
        self._outlet = Outlet([*([self._files.put_lines] if self._files is not None else []), encoded])
        self._stop = start_capture(options, self._outlet)

    def path(self, agent: str) -> str:
        """The file of an agent; "" without files."""
        return self._files.path(agent) if self._files is not None else ""

    def hand_on(self) -> None:
        """Wait a moment, until what was logged and printed so far is handed on."""
        self._outlet.drain(LAST_S)

    def close(self) -> None:
        """Hand on what is left, and capture no more."""
        self._stop()
        self.hand_on()
        if self._files is not None:
            self._files.close()


class ToRunner:
    """Hands batches to the hub of a Runner, one after the other."""

    def __init__(self, runner: Handle) -> None:
        self._runner = runner

    def put_batch(self, batch: bytes) -> None:
        """Have the Runner's process take lines."""
        self._runner.put_logs.remote(batch).future().result(timeout=SEND_S)

    def put_events(self, batch: bytes) -> None:
        """Have the Runner's process take events."""
        self._runner.put_events.remote(batch).future().result(timeout=SEND_S)


def name_output(process: str, agent: str) -> None:
    """Have Ray name an agent in front of what this process prints outside of runs: it is the one that has come last.

    Args:
        process: the name of the process, which begins with that of the app.
    """
    line = output_name(f"{process.partition('/')[0]}.{agent}")
    for stream in (sys.stdout, sys.stderr) if line else ():
        print(line, file=stream, flush=True)


@contextmanager
def task_logs(options: LogOptions, runner: Handle, run: RunFacts) -> Iterator[None]:
    """Capture what the code of a task logs and prints, as part of the run that has asked for the task."""
    logs = ProcessLogs(options, "tasks", ToRunner(runner))
    try:
        with in_run(run):
            yield
    finally:
        logs.close()


def _ray_folder() -> str | None:
    """A folder beside Ray's own logs; None when this version of Ray does not say where these are."""
    folder = logs_folder()
    return os.path.join(folder, "raygrove") if folder else None


WAIT_S = 30.0
"""How long a request waits for lines. Nothing else is sent while agents say nothing."""

RETRY_S = 1.0
"""Time before a process is asked again that could not be reached."""

KEPT_S = 5.0
"""How long a process may take to give what it keeps."""

FROM_FIRST = "first"
"""Names no hub, so that all of its lines are given."""

LAST_LINES_S = 0.05
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
                while await self._read(LAST_LINES_S):
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
            await asyncio.shield(asyncio.to_thread(self._sink, decode_lines(batch)))
        return bool(page.batches)
