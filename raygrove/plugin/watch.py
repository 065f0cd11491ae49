"""Ends a test that hangs, and says what its turns were doing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from raygrove.plugin.fixtures import open_runtimes

SIGNAL = getattr(signal, "SIGVTALRM", None)
"""Wakes the main thread. Hardly any program uses it; pytest-timeout takes another one. None on Windows."""

UNWINDING_S = 15.0
"""How long the main thread may take to leave a test that hangs, before the whole run is ended."""


class Watch:
    """Waits in a thread until a phase of a test is over, or has taken too long.

    Args:
        limit_s: how long it may take.
        describe: what the turns do, asked when it has taken too long.
    """

    def __init__(self, limit_s: float, phase: str, describe: Callable[[], str]) -> None:
        self._limit_s = limit_s
        self._phase = phase
        self._describe = describe
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._report = ""
        self._thread = threading.Thread(target=self._watch, name="raygrove-watch", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def end_phase(self) -> None:
        """The phase is over."""
        with self._lock:
            self._over.set()
        self._thread.join(UNWINDING_S)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Leave what hangs. The handler of the signal, which runs in the main thread."""
        __tracebackhide__ = True
        if self._report:
            report, self._report = self._report, ""
            pytest.fail(report)

    def _watch(self) -> None:
        if self._over.wait(self._limit_s):
            return
        report = (
            f"the {self._phase} took longer than {self._limit_s:g} s (timeout of the marker raygrove, or raygrove_timeout)\n"
            f"{self._describe()}"
        )
        with self._lock:
            # The signal must not come when the phase is over.
            if self._over.is_set():
                return
            self._report = report
            assert SIGNAL is not None
            signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
        if not self._over.wait(UNWINDING_S):
            # The main thread is in code that no signal interrupts, or has caught what the signal raised.
            print(f"\n{report}\nand nothing could interrupt it: pytest is ended", file=sys.__stderr__, flush=True)
            os._exit(pytest.ExitCode.TESTS_FAILED)


@contextmanager
def watched(item: pytest.Item, limit_s: float, phase: str) -> Iterator[None]:
    """End a phase of a test when it takes too long: the test fails with what its turns were doing.

    Args:
        limit_s: how long it may take; 0: any time.
    """
    if not limit_s or SIGNAL is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    watch = Watch(limit_s, phase, lambda: _describe(item))
    before = signal.signal(SIGNAL, watch.interrupt)
    watch.start()
    try:
        yield
    finally:
        watch.end_phase()
        signal.signal(SIGNAL, before)


def _describe(item: pytest.Item) -> str:
    from runtime.frontends.testing.turn_report import turn_report

    report = turn_report(open_runtimes(item.config))
    if "frozen_clock" in getattr(item, "fixturenames", ()):
        report += "\nfrozen_clock stands still: what waits goes on when the test calls frozen_clock.advance(seconds)"
    return report
