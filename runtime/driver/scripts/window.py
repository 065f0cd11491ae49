"""Which inputs are under way, and which results wait for those before them."""

from __future__ import annotations

from runtime.driver.scripts.results import MapResult

HELD = 10
"""Results that a map in order holds back at most, for each of its `concurrency`."""


class Window:
    """The inputs that have begun, and the results that were not given to the program yet.

    Args:
        concurrency: how many inputs are under way at most.
        in_order: give results in the order of the inputs.
    """

    def __init__(self, concurrency: int, *, in_order: bool) -> None:
        self._concurrency = concurrency
        self._in_order = in_order
        self._under_way = 0
        self._held: dict[int, MapResult] = {}
        self._begun = 0
        self._given = 0

    @property
    def is_empty(self) -> bool:
        """True when nothing is under way, and so no result is held back."""
        return not self._under_way

    def has_room(self) -> bool:
        """True when another input may begin."""
        return self._under_way < self._concurrency and len(self._held) < HELD * self._concurrency

    def begin_input(self) -> int:
        """Begin the next input. Returns its position."""
        self._under_way += 1
        self._begun += 1
        return self._begun - 1

    def end_input(self, result: MapResult) -> list[MapResult]:
        """End an input. Returns the results whose turn it is now."""
        self._under_way -= 1
        if not self._in_order:
            return [result]
        self._held[result.index] = result
        ready = []
        while self._given in self._held:
            ready.append(self._held.pop(self._given))
            self._given += 1
        return ready
