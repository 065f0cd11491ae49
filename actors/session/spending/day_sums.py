"""What all turns of an app that began today have used, kept up to date in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import NamedTuple

from actors.interfaces.store_abilities.usage import UsageFilter
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.rules.accounting.budgets import LikelyCall
from actors.rules.accounting.report import DAY_S
from actors.rules.accounting.turn_usage import Spent, minus, together
from actors.session.log.open_turn import SessionTurn
from actors.session.turns.stored_usage import StoredUsage

READ_AGAIN_S = 10.0
"""After so long the store is asked again, where other Session actors serve sessions of the app: what those use only it knows."""

TurnName = tuple[SessionKey, str]
"""A session, and the id of a turn in it."""


class _Counted(NamedTuple):
    """A turn that runs, and what of it is in the sums."""

    turn: SessionTurn
    spent: Spent


class DaySums:
    """Sums of the turns that began since midnight, by UTC, for budgets of the app.

    The store is read when the first turn asks, and on each new day; what turns of this actor use from then on is added as their
    events come. What a turn uses that began the day before is added too.

    Args:
        stored: reads what turns have used.
        has_others: other Session actors serve sessions of the app.
        is_open: says whether a turn is the open one of its session.
    """

    def __init__(self, stored: StoredUsage, is_open: Callable[[SessionKey, SessionTurn], bool], *, has_others: bool) -> None:
        self._stored = stored
        self._is_open = is_open
        self._has_others = has_others
        self._reading = asyncio.Lock()
        self._day = -1
        self._read_s = 0.0
        self._sums: Spent = {}
        self._running: dict[TurnName, _Counted] = {}
        # While the store is read: the turns that its answer leaves out, and that have ended meanwhile.
        self._ended: dict[TurnName, Spent] | None = None

    async def refresh(self, key: SessionKey) -> None:
        """Read the store, if the sums are not known, or not of today. Raises StoreError."""
        async with self._reading:
            day, at_s = int(now_s() // DAY_S), asyncio.get_running_loop().time()
            is_old = self._has_others and at_s - self._read_s > READ_AGAIN_S
            if day == self._day and not is_old:
                return
            self._forget_ended()
            running = set(self._running)
            self._ended = {}
            try:
                sums = await self._stored.spent(UsageFilter(app=key.app, since_s=float(day * DAY_S)), running)
                ended = self._ended
            finally:
                self._ended = None
            for name, counted in self._running.items():
                spent = dict(counted.turn.usage.spent)
                self._running[name] = counted._replace(spent=spent)
                if name in running and counted.turn.row.begun_s >= day * DAY_S:
                    sums = together(sums, spent)
            self._sums = together(sums, *ended.values())
            self._day, self._read_s = day, at_s

    def add(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count a turn from now on. What it has used so far is known."""
        name = (key, turn.row.invocation_id)
        if name in self._running:
            self.note(key, turn)
        else:
            self._running[name] = _Counted(turn, dict(turn.usage.spent))

    def note(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn has used since; nothing, if it is not counted."""
        name = (key, turn.row.invocation_id)
        counted = self._running.get(name)
        if counted is not None:
            spent = dict(turn.usage.spent)
            self._sums = together(self._sums, minus(spent, counted.spent))
            self._running[name] = _Counted(turn, spent)

    def spent(self) -> Spent:
        """The sums."""
        return self._sums

    def under_way(self, since_s: float) -> Iterator[tuple[SessionKey, str, int, LikelyCall]]:
        """The calls that turns have under way which began then or later: session, turn, and the number of the run."""
        self._forget_ended()
        for (key, invocation_id), counted in self._running.items():
            for run, (call, begun_s) in counted.turn.reserved.items():
                if begun_s >= since_s:
                    yield key, invocation_id, run, call

    def _forget_ended(self) -> None:
        for name, counted in [*self._running.items()]:
            if not self._is_open(name[0], counted.turn):
                self.note(name[0], counted.turn)
                del self._running[name]
                if self._ended is not None:
                    self._ended[name] = counted.turn.usage.spent
