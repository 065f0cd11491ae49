"""Whether this program was told to end, by SIGTERM: what it leaves then, it does not mean to cancel."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import ClassVar

_HANDLED_BY_RAY = "ray._private.worker"


class ToldToEnd:
    """SIGTERM in a program that uses Ray: Ray's handler raises SystemExit, where the program would be killed without it.

    Attributes:
        by_signal: the program unwinds since it got SIGTERM.
    """

    by_signal: ClassVar[bool] = False

    @classmethod
    def note_signal(cls) -> None:
        """Have Ray's handler, which has just been set, note the signal as well."""
        handler = signal.getsignal(signal.SIGTERM)
        if threading.current_thread() is not threading.main_thread() or not callable(handler):
            return
        if handler.__module__ == _HANDLED_BY_RAY:
            signal.signal(signal.SIGTERM, cls._noting(handler))

    @classmethod
    def _noting(cls, handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], object]:
        def note(number: int, frame: FrameType | None) -> None:
            cls.by_signal = True
            handler(number, frame)

        return note
