"""What a terminal shows: colours, and texts of models without control characters. And the lines that a person types."""

from __future__ import annotations

import os
import signal
import sys
import unicodedata
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

    def bold(self, text: str, end: str = "\n") -> None:
        """Write a heading."""
        self._coloured(_BOLD, text, end)

    def _coloured(self, colour: str, text: str, end: str = "\n") -> None:
        text = self._clean(text)
        self._stream.write(f"{colour}{text}{_END}{end}" if self._has_colours else f"{text}{end}")
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
