"""What a person types while a turn is shown."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable
from types import TracebackType

_ESC, _ENTER, _DELETE = "\x1b", ("\r", "\n"), ("\x7f", "\b")

_TICK_S = 0.1


class Keys:
    """Reads the keys of the terminal within the block, on a thread: a line is shown as it is typed. Nothing without a terminal.

    Args:
        on_line: called with each line that is not empty.
        on_escape: called when Esc is pressed.
        show: shows what is typed.
    """

    def __init__(self, on_line: Callable[[str], None], on_escape: Callable[[], None], show: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._on_escape = on_escape
        self._show = show
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Keys:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            # Ctrl-C stays a signal.
            tty.setcbreak(sys.stdin)
            self._thread = threading.Thread(target=self._read, name="raygrove-keys", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()
            termios.tcsetattr(sys.stdin, termios.TCSANOW, self._before)

    def _read(self) -> None:
        line = ""
        stdin = sys.stdin.fileno()
        while not self._is_over.is_set():
            if not select.select([stdin], [], [], _TICK_S)[0]:
                continue
            typed = os.read(stdin, 1024).decode(errors="replace")
            if not typed:
                return
            if typed.startswith(_ESC):
                # Keys such as the arrows send more behind it.
                if typed == _ESC:
                    self._on_escape()
                continue
            for key in typed:
                line = self._press(key, line)

    def _press(self, key: str, line: str) -> str:
        """Returns the line with the key."""
        if key in _ENTER:
            self._show("\n")
            if line.strip():
                self._on_line(line.strip())
            return ""
        if key in _DELETE:
            self._show("\b \b" if line else "")
            return line[:-1]
        if not key.isprintable():
            return line
        self._show(key)
        return line + key
