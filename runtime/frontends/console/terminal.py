"""A terminal: colours, texts of models without control characters, and what a person types."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
import unicodedata
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

_DIM, _BOLD, _RED, _END = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[0m"

_TICK_S = 0.2


class Terminal:
    """Writes texts to a stream, in colours when it is a terminal.

    Args:
        stream: None: the standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty()
        self._has_colours = self.is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def write(self, text: str, end: str = "\n") -> None:
        """Write a text. A terminal gets no control characters of it."""
        self._stream.write(self._clean(text) + end)
        self._stream.flush()

    def show_typed(self, text: str) -> None:
        """Write what a person has typed, as it is."""
        self._stream.write(text)
        self._stream.flush()

    def dim(self, text: str) -> None:
        """Write a line of minor importance."""
        self._coloured(_DIM, text)

    def red(self, text: str) -> None:
        """Write a line that says what failed."""
        self._coloured(_RED, text)

    def bold(self, text: str) -> None:
        """Write a heading."""
        self._coloured(_BOLD, text)

    def _coloured(self, colour: str, text: str) -> None:
        text = self._clean(text)
        self._stream.write(f"{colour}{text}{_END}\n" if self._has_colours else f"{text}\n")
        self._stream.flush()

    def _clean(self, text: str) -> str:
        if not self.is_terminal or text.isprintable():
            return text
        return "".join(each if each in "\n\t" or unicodedata.category(each) != "Cc" else "�" for each in text)


def read_line(prompt: str) -> str:
    """A line that a person types. Only the main thread may read.

    Raises:
        EOFError: Ctrl-D.
        KeyboardInterrupt: Ctrl-C, also one that comes just after the prompt: Python's `input` shows the prompt and begins to
            wait, and finds a signal that comes in between only when another ends the wait. A timer sends that other one.
    """
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, _TICK_S, _TICK_S)
    try:
        return input(prompt)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_ESC, _ENTER, _DELETE = "\x1b", ("\r", "\n"), ("\x7f", "\b")

_LOOK_S = 0.1


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
            if not select.select([stdin], [], [], _LOOK_S)[0]:
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
