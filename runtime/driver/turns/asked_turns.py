"""The turns that a program has asked for and that have not begun: those that fill the line of a Runner by themselves.

Rules of this file:

- A turn waits in its Runner from when it is asked for until it has begun. Its program learns of that later, so it counts each of
  its turns for at least as long as the Runner does.
- So where as many of this program's have not begun as may wait in the line, another one would be refused there, and is refused
  here. A program that asks for more than can begin knows it before the first of its turns has come to the Runner.
- Every `PROBE_S` one more is asked for, so that the Runner tells of what is refused, and nothing depends on this count alone.
- What a server has before it, unread, will be asked for. Whose turns these are is not known, so they count for all Runners
  together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf

from actors.errors import OverloadedError
from actors.rules.queues import line_is_full
from runtime.driver.turns.refused_lines import PASSED_S, PROBE_S


class AskedTurns:
    """What a program counts. Times are those of one clock."""

    def __init__(self) -> None:
        # By age: dictionaries keep the order.
        self._turns: dict[Hashable, tuple[int, float]] = {}
        self._of_runner: Counter[int] = Counter()
        self._probed_s: dict[int, float] = {}
        self._passed_s = -inf

    def __len__(self) -> int:
        """The number of turns that have not begun."""
        return len(self._turns)

    def add(self, turn: Hashable, runner: int, now_s: float) -> None:
        """A turn is asked for, of the Runner with this number."""
        self._turns[turn] = runner, now_s
        self._of_runner[runner] += 1

    def discard(self, turn: Hashable) -> None:
        """A turn has begun, or will not. One that was not counted is none of these."""
        if (found := self._turns.pop(turn, None)) is not None:
            self._of_runner[found[0]] -= 1

    def refusal(self, runner: int, most: int, now_s: float) -> OverloadedError | None:
        """Why a Runner with a line of `most` turns need not be asked for another one; None when it is about to be asked."""
        waiting = self._of_runner[runner]
        if waiting < most:
            return None
        if now_s - self._probed_s.get(runner, -inf) >= PROBE_S:
            self._probed_s[runner] = now_s
            return None
        return self._full(waiting, now_s)

    def refusal_of_any(
        self, unread: int, runners: int, most: int, now_s: float, *, again: bool = False
    ) -> OverloadedError | None:
        """The same of a turn of whichever session.

        Args:
            unread: so many requests that are not read stand before it.
            again: it was let through before, and has not asked yet.
        """
        waiting = len(self._turns) + unread
        if waiting < most * runners:
            return None
        if not again and now_s - self._passed_s >= PROBE_S:
            self._passed_s = now_s
        elif not again or now_s - self._passed_s >= PASSED_S:
            return self._full(waiting, now_s)
        return None

    def _full(self, waiting: int, now_s: float) -> OverloadedError:
        oldest_s = next(iter(self._turns.values()))[1] if self._turns else now_s
        return line_is_full(waiting, now_s - oldest_s)
