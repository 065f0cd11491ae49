"""How a Runtime is used as a context manager, sync or async."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class ContextManager(ABC):
    """Starts on entering a block, sync or async, and closes on leaving it.

    A block that an exception leaves, Ctrl-C and SystemExit among them, belongs to a program that fails or was asked to end: turns
    under way stay open, as if it had been killed.
    """

    @abstractmethod
    def start(self) -> Self:
        """Start, and return itself."""

    @abstractmethod
    def close(self, *, leave_turns: bool = False) -> None:
        """End what `start` has begun."""

    @property
    @abstractmethod
    def _is_started(self) -> bool:
        """True from `start` to `close`."""

    def __enter__(self) -> Self:
        # Else it is `with Runtime(…).start() as rt`.
        return self if self._is_started else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(leave_turns=kind is not None)

    async def __aenter__(self) -> Self:
        return self if self._is_started else await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close, leave_turns=kind is not None)
