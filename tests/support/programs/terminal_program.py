"""A program on a pseudo terminal, as a person uses it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

CTRL_C, CTRL_D = "\x03", "\x04"


class TerminalProgram:
    """`raygrove` with a terminal of its own.

    Args:
        arguments: of the command.
        folder: to run in.
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        # The first terminal that the leader of a session opens becomes its own: Ctrl-C there reaches the program.
        code = "import os; os.close(os.open(os.ttyname(0), os.O_RDWR)); from runtime.frontends.console.cli import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(slave)
        self._unread = ""

    def __enter__(self) -> TerminalProgram:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        """Press keys. A line needs its end."""
        os.write(self._master, text.encode())

    def until(self, text: str, timeout_s: float = 30.0) -> str:
        """What the terminal shows until a text, that text included."""
        end = time.monotonic() + timeout_s
        while text not in self._unread:
            if not self._read(end):
                raise AssertionError(f"{text!r} did not come, but {self._unread!r}")
        before, _, self._unread = self._unread.partition(text)
        return before + text

    def exit_code(self, timeout_s: float = 30.0) -> int:
        """How the program ended."""
        return self._process.wait(timeout_s)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            read = os.read(self._master, 65536)
        except OSError:
            return False
        self._unread += _COLOURS.sub("", read.decode(errors="replace")).replace("\r", "")
        return bool(read)
