"""What the processes of a deployment do with their logs: they capture, write files, and hand on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from actors.interfaces.run_facts import RunFacts, in_run
from runtime.cluster.handle import Handle
from runtime.cluster.ray.nodes import logs_folder
from runtime.cluster.ray.process import output_name
from runtime.observability.logs.capture import start_capture
from runtime.observability.logs.events import event_of, without_quiet_events
from runtime.observability.logs.files import LogFiles
from runtime.observability.logs.lines import Line, encode_lines
from runtime.observability.logs.options import LogOptions
from runtime.observability.logs.outlet import CallSink, Outlet

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

    def __init__(self, options: LogOptions, role: str, way: LogWay) -> None:
        def encoded(lines: Sequence[Line]) -> None:
            events = [line for line in lines if event_of(line) is not None]
            if events:
                way.put_events(encode_lines(events))
                lines = without_quiet_events(lines, options.level)
            if lines:
                way.put_batch(encode_lines(lines))

        folder = options.folder or _ray_folder()
        self._files = LogFiles(options, folder, role) if folder else None
        self._outlet = Outlet([*([self._files] if self._files is not None else []), CallSink(encoded)])
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


class LogWay(Protocol):
    """Where the lines of a process go. A LogHub is one."""

    def put_batch(self, batch: bytes) -> None:
        """Take encoded lines, for programs that ask for them."""
        ...

    def put_events(self, batch: bytes) -> None:
        """Take encoded lines that tell events of the deployment, to be kept for longer."""
        ...


class ToRunner:
    """Implements `LogWay`: hands batches to the hub of a Runner, one after the other."""

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
