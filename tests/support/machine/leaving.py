"""Programs that leave in the midst of their work: how they end, how long it takes, and what stays of them."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import NamedTuple

from tests.support.machine.processes import kill, processes_with
from tests.support.machine.ray_environment import without_ray
from tests.support.programs.leaving_program import ERRORS, INITS

MARK = "RAYGROVE_TEST_MARK"
"""Environment variable by which the processes of a program are found."""

WAYS = ("end", "exception", "SIGTERM", "SIGINT", "ray")
"""How programs leave: as their code says, by a signal, or as their code says after their Ray was killed."""

CODES = {"end": 0, "exception": 1, "SIGTERM": -signal.SIGTERM, "SIGINT": -signal.SIGINT, "ray": 0}
"""With which exit code. Ray ends a program that has got SIGTERM with the number of the signal."""

HUNG_S = 90.0
"""How long a program is waited for at most."""


class Departure(NamedTuple):
    """How a program has left.

    Attributes:
        place, way: see leaving_program, and WAYS.
        took_s: from the reason to the end of its process.
        code: its exit code.
        rays: how often it has connected with a Ray, or started one.
        errors: tracebacks that it should not have had, and the end of its log where the code is wrong.
        processes: those that stayed, after the time that they have for it.
        files: in its folder for temporary files, but for the folder of Ray.
    """

    place: str
    way: str
    took_s: float
    code: int | None
    rays: int
    errors: str
    processes: Sequence[str]
    files: Sequence[str]

    def faults(self, within_s: float) -> list[str]:
        """What is wrong with it."""
        code = CODES[self.way]
        found = {
            f"took {self.took_s:.1f} s": self.took_s > within_s,
            f"has connected {self.rays} times": self.rays != 1,
            f"ended with {self.code}": self.code not in (code, abs(code)),
            self.errors: self.errors,
            f"left {self.processes}": self.processes,
            # Its actors have ended with their Ray, after it; the next program removes their sockets.
            f"left {self.files}": self.files and self.way != "ray",
        }
        return [f"{self.place} {self.way}: {fault}" for fault, is_so in found.items() if is_so]


class LeavingProgram:
    """A program under load. Use it as a context manager, in which it is busy; whatever stays of it is killed at the end.

    Args:
        place, way: see Departure.
        address: of the Ray to join; "": one of its own.
        app: the app's name.
        variables: of its environment, beside those of this process that are not Ray's.
    """

    def __init__(self, place: str, way: str, address: str = "", app: str = "leaving", **variables: str) -> None:
        self._place, self._way, self._address, self._app = place, way, address, app
        self._mark = secrets.token_hex(8)
        self._variables = variables

    def __enter__(self) -> LeavingProgram:
        self._folder = TemporaryDirectory(prefix="leaving-", dir="/tmp", ignore_cleanup_errors=True)
        # Its sockets have short paths.
        self._temporary = TemporaryDirectory(prefix="l", dir="/tmp", ignore_cleanup_errors=True)
        self._path = Path(self._folder.name)
        way = "signal" if self._way.startswith("SIG") else "exception" if self._way == "exception" else "end"
        command = [sys.executable, "-m", "tests.support.programs.leaving_program"]
        with (self._path / "log").open("w") as log:
            self._program = subprocess.Popen(
                [*command, self._place, way, self._folder.name, self._address, self._app],
                cwd=self._path,
                env={
                    **without_ray(),
                    "PYTHONPATH": str(Path(__file__).parents[3]),
                    **self._variables,
                    "TMPDIR": self._temporary.name,
                    MARK: self._mark,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._program.stdout is not None
        assert self._program.stdout.readline() == "busy\n", self._log()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pid in [self._program.pid, *self._left()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._program.communicate()
        self._folder.cleanup()
        self._temporary.cleanup()

    def _log(self) -> str:
        return (self._path / "log").read_text()[-3_000:]

    def _left(self) -> dict[int, str]:
        """Its processes that run, by id."""
        return processes_with(f"{MARK}={self._mark}")

    def kill_ray(self, *names: str) -> None:
        """Kill processes of its own Ray, such as `gcs_server`."""
        kill(*(pid for pid, command in self._left().items() if any(f"/{name} " in command for name in names)))

    def leave(self, patience_s: float) -> Departure:
        """Have it leave, and wait for the end.

        Args:
            patience_s: how long its processes may take to end after it.
        """
        began_s = time.monotonic()
        if self._way.startswith("SIG"):
            self._program.send_signal(getattr(signal, self._way))
        assert self._program.stdin is not None
        with suppress(BrokenPipeError):
            self._program.stdin.write("leave\n")
            self._program.stdin.flush()
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = self._program.wait(HUNG_S)
        took_s = time.monotonic() - began_s
        while self._left() and time.monotonic() < began_s + took_s + patience_s:
            time.sleep(0.1)
        inits, errors = (self._lines(name) for name in (INITS, ERRORS))
        if code not in (CODES[self._way], abs(CODES[self._way])):
            errors.append(self._log())
        left = [f"{pid}: {command[:80]}" for pid, command in self._left().items()]
        return Departure(self._place, self._way, took_s, code, len(inits), "\n".join(errors), left, self._files())

    def _lines(self, name: str) -> list[str]:
        file = self._path / name
        return file.read_text().splitlines() if file.exists() else []

    def _files(self) -> list[str]:
        top = Path(self._temporary.name)
        return sorted(str(path.relative_to(top)) for path in top.glob("*/*") if path.name != "ray")
