"""What turns have used: as the store has it, and those of today, kept up to date in memory.

Rules of the sums of today:

- What the store says is read once, and turns add to it from then on, whether they have such a budget or not.
- Of a turn that is open while the store is read, or is written to meanwhile, memory knows more: its part is taken out of what the
  store says, and what the turn itself knows put in its place. So nothing counts twice, and nothing is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from actors.layers.spending.rules.budgets import LikelyCall
from actors.layers.spending.rules.report import DAY_S, day_of, sum_of_packed
from actors.layers.spending.turn_spending import Spending
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import TurnId, TurnName, UnsummedTurn, UsageFilter, UsagePage
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.rules.accounting import Spent, minus, negated, packed, together
from actors.session.log.event_scan import scan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn, TurnLedger
from actors.session.service import SessionParts

T = TypeVar("T")


class StoredTurns:
    """The sums of turns as the store had them, and of each of those that are looked for.

    Args:
        read: runs it beside the event loop.
    """

    def __init__(
        self, names: Callable[[Sequence[TurnId]], Mapping[TurnId, TurnName]], read: Callable[..., Awaitable[Any]]
    ) -> None:
        self._names = names
        self._read = read
        self._by_id: dict[str, list[tuple[TurnId | TurnName, bytes]]] = {}
        self._found: dict[tuple[str, str, str], bytes] = {}
        self.total: Spent = {}

    def add(self, turns: Sequence[bytes], names: Sequence[TurnId | TurnName]) -> None:
        """Add turns: what each has used, packed, and what names it."""
        self.total = together(self.total, sum_of_packed(turns)) if turns else self.total
        for name, raw in zip(names, turns, strict=True):
            self._by_id.setdefault(name.invocation_id if isinstance(name, TurnName) else name[1], []).append((name, raw))

    async def find(self, wanted: Collection[tuple[SessionKey, str]]) -> bool:
        """Find turns by their sessions and ids; False if there is none that was not looked for before. Raises StoreError."""
        known = [each for _, invocation_id in wanted for each in self._by_id.pop(invocation_id, [])]
        if not known:
            return False
        ids = [name for name, _ in known if not isinstance(name, TurnName)]
        names: Mapping[TurnId, TurnName] = await self._read(self._names, ids) if ids else {}
        for name, raw in known:
            found = name if isinstance(name, TurnName) else names.get(name)
            if found is not None:
                self._found[found.user, found.session, found.invocation_id] = raw
        return True

    def of(self, wanted: Collection[tuple[SessionKey, str]]) -> Spent:
        """The sums of those turns that were found."""
        places = ((key.user, key.session, invocation_id) for key, invocation_id in wanted)
        raws = [self._found[place] for place in places if place in self._found]
        return sum_of_packed(raws) if raws else {}


class StoredUsage:
    """Reads what turns have used."""

    def __init__(self, parts: SessionParts) -> None:
        self._access = parts.access
        self._store = store_of(parts.access)
        self._reader = parts.reader

    async def spent(self, wanted: UsageFilter, without: Collection[tuple[SessionKey, str]]) -> Spent:
        """The sums of turns. Raises StoreError.

        Args:
            without: the sessions and the ids of turns that run, and are left out.
        """
        return sum_of_packed([raw async for _, turns in self.groups(wanted, without) for raw in turns])

    async def groups(
        self, wanted: UsageFilter, without: Collection[tuple[SessionKey, str]] = ()
    ) -> AsyncIterator[tuple[str, Sequence[bytes]]]:
        """The sums of turns, packed, with the names of their groups; one may come several times. Raises StoreError."""
        async for page in self._pages(wanted):
            for group, turns in page.turns.items():
                yield group, turns
            for turn in page.unsummed:
                if (turn.key, turn.invocation_id) not in without:
                    named = {"user": turn.key.user, "day": day_of(turn.begun_s), "version": turn.version}
                    yield named.get(wanted.groups, ""), [await self._of_events(turn)]

    async def single(self, wanted: UsageFilter) -> AsyncIterator[tuple[Sequence[bytes], Sequence[TurnId | TurnName]]]:
        """The sums of turns, packed, and their names, as far as the store has them at hand: see `named`. Raises StoreError."""
        async for page in self._pages(wanted):
            yield page.turns[""], page.ids
            for turn in page.unsummed:
                name = TurnName(turn.key.user, turn.key.session, turn.invocation_id, turn.begun_s)
                yield [await self._of_events(turn)], [name]

    async def by_turn(self, wanted: UsageFilter) -> StoredTurns:
        """The sums of turns, and of each of them. Raises StoreError."""
        found = StoredTurns(self._store.turn_names, self._access.read)
        async for turns, names in self.single(wanted):
            found.add(turns, names)
        return found

    async def named(self, turns: Sequence[tuple[TurnId | TurnName, T]]) -> Sequence[tuple[TurnName, T]]:
        """The names of turns of `single`, without those that were deleted meanwhile. Raises StoreError."""
        names = await self._access.read(self._store.turn_names, [name for name, _ in turns if not isinstance(name, TurnName)])
        found = [(name if isinstance(name, TurnName) else names.get(name), value) for name, value in turns]
        return [(name, value) for name, value in found if name is not None]

    async def _pages(self, wanted: UsageFilter) -> AsyncIterator[UsagePage]:
        await self._access.commits.flush()
        page = await self._access.read(self._store.usage, wanted)
        yield page
        while page.next is not None:
            page = await self._access.read(self._store.usage, wanted, page.next)
            yield page

    async def _of_events(self, turn: UnsummedTurn) -> bytes:
        """The sums of a turn, packed, as its events say."""
        row = await self._reader.turn(turn.key, turn.invocation_id)
        ledger = self._reader.turn_of(row).ledger if row is not None else TurnLedger()
        ledger.forget_events()
        after_seq, before_seq = turn.first_seq - 1, turn.last_seq + 1 if turn.last_seq else None
        while events := await self._reader.page(turn.key, after_seq, before_seq):
            after_seq = events[-1].seq
            for event in (scan(stored.raw) for stored in events):
                if event.invocation_id == turn.invocation_id:
                    ledger.fold(event)
        return packed(ledger.spent)


READ_AGAIN_S = 10.0
"""After so long the store is asked again about an app, where other Session actors serve sessions of it: what those use only it
knows. About a user it is asked each time."""

TRACKED = 256
"""Turns that are tracked before those that have ended are looked for."""

MAX_USERS = 1_000
"""Users whose sums are kept before those are forgotten that have no open turn."""

TurnKey = tuple[SessionKey, str]
"""A session, and the id of a turn in it."""


class _Counted(NamedTuple):
    """A turn that is open, or was lately, and what of it is in the sums."""

    turn: SessionTurn
    spent: Spent


class DaySums:
    """Sums of the turns that began since midnight, by UTC, for budgets of the app or of a user.

    The store is read when the first turn asks, and on each new day; what turns of this actor use from then on is added as their
    events come. What a turn uses that began the day before is added too.

    Args:
        stored: reads what turns have used.
        logs: know the turns that are open.
        has_others: other Session actors serve sessions of the app.
        user: of the app whose turns are meant; None: those of all users are.

    Attributes:
        is_wanted: they were asked for. Before that no turn need be counted.
    """

    def __init__(self, stored: StoredUsage, logs: SessionLogs, *, has_others: bool, user: str | None = None) -> None:
        self._stored = stored
        self._logs = logs
        self._user = user
        self._read_again_s = READ_AGAIN_S if user is None else 0.0
        self._has_others = has_others
        self._reading = asyncio.Lock()
        self._day = -1
        self._read_s = 0.0
        self._sums: Spent = {}
        self._older: tuple[int, Spent] = (-1, {})
        self._tracked: dict[TurnKey, _Counted] = {}
        self._most = TRACKED
        self.is_wanted = False

    async def refresh(self, key: SessionKey) -> None:
        """Read the store, if the sums are not known, or not of today. Raises StoreError."""
        self.is_wanted = True
        async with self._reading:
            day, at_s = int(now_s() // DAY_S), asyncio.get_running_loop().time()
            is_old = self._has_others and at_s - self._read_s >= self._read_again_s
            if day == self._day and not is_old:
                return
            self._forget_ended()
            for log in self._logs.all_in_memory(in_use=True):
                if log.turn is not None and self._user in (None, log.key.user):
                    self._track(log.key, log.turn)
            wanted = UsageFilter(app=key.app, user=self._user, since_s=float(day * DAY_S), groups="turn")
            stored = await self._stored.by_turn(wanted)
            # Turns that are written to meanwhile are tracked, too: there may be more of them after each wait.
            while await stored.find(self._tracked):
                pass
            sums = together(minus(stored.total, stored.of(self._tracked)), self._used_by_older(day))
            for name, counted in self._tracked.items():
                spent = dict(counted.turn.ledger.spent)
                self._tracked[name] = counted._replace(spent=spent)
                if counted.turn.row.begun_s >= day * DAY_S:
                    sums = together(sums, spent)
            self._sums, self._day, self._read_s = sums, day, at_s

    def track(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn is about to use. What it has used so far is known, or is being read."""
        if self._day >= 0 or self._reading.locked():
            self._track(key, turn)
            if len(self._tracked) > self._most and not self._reading.locked():
                self._forget_ended()
                self._most = max(TRACKED, 2 * len(self._tracked))

    def _track(self, key: SessionKey, turn: SessionTurn) -> None:
        name = (key, turn.row.invocation_id)
        counted = self._tracked.get(name)
        if counted is None or counted.turn is not turn:
            if counted is not None:
                self._add_new(name, counted)
            self._tracked[name] = _Counted(turn, dict(turn.ledger.spent))

    def note(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn has used since; nothing, if it is not tracked."""
        name = (key, turn.row.invocation_id)
        counted = self._tracked.get(name)
        if counted is not None and counted.turn is turn:
            self._add_new(name, counted)

    def _add_new(self, name: TurnKey, counted: _Counted) -> None:
        spent = dict(counted.turn.ledger.spent)
        # Less than nothing, where events were refused that were counted.
        new, day = together(spent, negated(counted.spent)), int(now_s() // DAY_S)
        self._sums = together(self._sums, new)
        if counted.turn.row.begun_s < day * DAY_S:
            # The store has it under the day on which the turn began.
            self._older = (day, together(self._used_by_older(day), new))
        self._tracked[name] = counted._replace(spent=spent)

    def _used_by_older(self, day: int) -> Spent:
        """The sums that turns which began on earlier days have used on this one, as far as this actor knows."""
        known, spent = self._older
        return spent if known == day else {}

    @property
    def is_idle(self) -> bool:
        """True if nothing is lost with the sums: the store is not being read, and none of the turns is open."""
        if self._reading.locked():
            return False
        self._forget_ended()
        return not self._tracked

    def spent(self) -> Spent:
        """The sums."""
        return self._sums

    def under_way(self, since_s: float) -> Iterator[tuple[SessionKey, str, int, LikelyCall]]:
        """The calls that turns have under way which began then or later: session, turn, and the number of the run."""
        if not self._reading.locked():
            self._forget_ended()
        for (key, invocation_id), counted in self._tracked.items():
            for run, (call, begun_s) in Spending.of(counted.turn).reserved.items():
                if begun_s >= since_s:
                    yield key, invocation_id, run, call

    def _forget_ended(self) -> None:
        for name, counted in [*self._tracked.items()]:
            log = self._logs.in_memory(name[0])
            if log is None or log.turn is not counted.turn:
                self._add_new(name, counted)
                del self._tracked[name]


class SumsOfToday:
    """The sums of the day of the app, and by user, as far as they were asked for.

    Args:
        sums_of: makes those of a user, or of the app: None. They are read when they are asked for.

    Attributes:
        app: those of the app.
        on_wanted: called when sums are asked for. From then on `track` and `note` have to be called with what turns use.
    """

    def __init__(self, sums_of: Callable[[str | None], DaySums]) -> None:
        self.on_wanted: Callable[[], None] = lambda: None
        self.app = sums_of(None)
        self._sums_of = sums_of
        self._users: dict[tuple[str, str], DaySums] = {}
        self._most = MAX_USERS

    async def of_app(self, key: SessionKey) -> DaySums:
        """Those of the app of a session. Raises StoreError."""
        self.on_wanted()
        await self.app.refresh(key)
        return self.app

    async def of_user(self, key: SessionKey, turn: SessionTurn) -> DaySums:
        """Those of the user of a turn. What the turn uses from now on is added. Raises StoreError."""
        self.on_wanted()
        name = (key.app, key.user)
        while True:
            sums = self._users.get(name)
            if sums is None:
                self._forget_idle()
                sums = self._users[name] = self._sums_of(key.user)
            await sums.refresh(key)
            # They may have been forgotten meanwhile, if no turn of the user was open.
            if self._users.get(name) is sums:
                sums.track(key, turn)
                return sums

    def track(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn is about to use: see DaySums."""
        if self.app.is_wanted:
            self.app.track(key, turn)
        if self._users and (sums := self._users.get((key.app, key.user))) is not None:
            sums.track(key, turn)

    def note(self, key: SessionKey, turn: SessionTurn) -> None:
        """Count what a turn has used since: see DaySums."""
        if self.app.is_wanted:
            self.app.note(key, turn)
        if self._users and (sums := self._users.get((key.app, key.user))) is not None:
            sums.note(key, turn)

    def _forget_idle(self) -> None:
        if len(self._users) >= self._most:
            self._users = {name: sums for name, sums in self._users.items() if not sums.is_idle}
            self._most = max(MAX_USERS, 2 * len(self._users))
