"""What turns have used, as the store has it: the sums of most of them, and the events of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from actors.layers.spending.rules.packed_usage import sum_of_packed
from actors.layers.spending.rules.report import day_of
from actors.layers.stores.session_store import store_of
from actors.layers.stores.usage import TurnId, TurnName, UnsummedTurn, UsageFilter, UsagePage
from actors.messages.session import SessionKey
from actors.rules.accounting.turn_usage import Spent, packed, together
from actors.session.log.event_scan import scan
from actors.session.log.open_turn import TurnLedger
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
