"""Whether this program was told to end, by SIGTERM: what it leaves then, it does not mean to cancel."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar


class ToldToEnd:
    """SIGTERM in a program that uses Ray: Ray's handler raises SystemExit, where the program would be killed without it.

    Attributes:
        by_signal: the program unwinds since it got SIGTERM.
    """

    by_signal: ClassVar[bool] = False

    @classmethod
    @contextmanager
    def noting(cls) -> Iterator[None]:
        """Have a handler that is set within the block note the signal as well."""
        before = signal.getsignal(signal.SIGTERM)
        yield
        handler = signal.getsignal(signal.SIGTERM)
        if handler is not before and callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, cls._noting(handler))

    @classmethod
    def _noting(cls, handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], object]:
        def note(number: int, frame: FrameType | None) -> None:
            cls.by_signal = True
            handler(number, frame)

        return note
