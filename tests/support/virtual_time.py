"""An event loop whose time jumps to the next timer as soon as nothing else can go on: hours take no time, and need no luck.

Only for code without threads: the loop does not know that a thread will wake it up, and jumps.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time begins at 0 and passes only while nothing goes on.

    Attributes:
        now_s: the time.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """The virtual time in seconds."""
        return self.now_s


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits for something that never happens")
        self._loop.now_s += timeout
        return super().select(0)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on such a loop."""
    return run_in_virtual_time(main)[0]


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run a coroutine on such a loop. Returns its result, and how many virtual seconds it took."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        result = runner.run(main)
        return result, runner.get_loop().time()
