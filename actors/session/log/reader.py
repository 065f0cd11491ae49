"""What the Session actor reads from the store: sessions, events by pages, turns and calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from actors.errors import UnknownFunctionCallError
from actors.interfaces.stores import CallRow, LogStore, SessionRow, TurnFilter, TurnRow
from actors.messages.codec import decode
from actors.messages.json_types import JsonValue
from actors.messages.protocol.base import StoredEvent
from actors.messages.session import SessionKey, SessionPlace
from actors.session.log.event_scan import EventScan, scan
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.shared_state import SharedState, SharedStates, StatesReading, StoredStates
from actors.session.store.access import StoreAccess
from actors.session.store.grouped_reads import GroupedReads

PAGE = 1_000
"""Events that are read from the store for one reply, unless they are large, and turns that are read at once."""

PAGE_BYTES = 4_000_000
"""About how large a reply may become."""

FIRST_READ = 16
"""Events that are read first: their size tells how many more a reply has room for."""


class StoredSession(NamedTuple):
    """What the store has of a session, and of the states that it shares.

    Attributes:
        row: its record; None when there is no such session.
        running: the turn that has not ended.
        shared: the states of its app and user, if they were asked for.
    """

    row: SessionRow | None
    running: TurnRow | None
    shared: StoredStates | None


def stored_session(store: LogStore, key: SessionKey, shared: StatesReading | None = None) -> StoredSession:
    """Read a session in the store's thread: one hop, whatever has to be read. Raises StoreError."""
    row = store.session(key)
    running = store.running_turn(key) if row is not None and row.head_seq else None
    return StoredSession(row, running, shared() if shared is not None else None)


class LogReader:
    """Reads the store. What looks a record up waits until all earlier writes are on disk.

    All methods raise StoreError when the store cannot be read.
    """

    def __init__(self, access: StoreAccess, extensions: Sequence[type[TurnExtension]]) -> None:
        self.extensions = extensions
        self._access = access
        self._store = access.store

    async def session(self, key: SessionKey, *, shared: StatesReading | None) -> StoredSession:
        """A session, read at once.

        Args:
            shared: reads the states that it shares as well, also if there is no such session.
        """
        return await self._access.read(stored_session, self._store, key, shared)

    async def sessions(
        self, app: str, user: str | None, limit: int | None = None, before: SessionPlace | None = None
    ) -> list[SessionRow]:
        """The records of sessions of a user, or of all users, the one written last first: see `LogStore.sessions`."""
        await self._access.commits.flush()
        return await self._access.read(lambda: self._store.sessions(app, user, limit=limit, before=before))

    async def events(
        self,
        key: SessionKey,
        *,
        after_seq: int = 0,
        before_seq: int | None = None,
        limit: int | None = None,
        after_s: float | None = None,
        newest: bool = False,
    ) -> list[StoredEvent]:
        """Visible events of a log: see `LogStore.events`."""
        rows = await self._access.read(
            lambda: self._store.events(
                key, after_seq=after_seq, limit=limit, after_s=after_s, newest=newest, before_seq=before_seq
            )
        )
        return [StoredEvent(seq, raw) for seq, raw in rows]

    async def at(self, key: SessionKey, seq: int) -> StoredEvent | None:
        """The visible event at a position; None when there is none."""
        return next(iter(await self.events(key, after_seq=seq - 1, before_seq=seq + 1, limit=1)), None)

    async def page(
        self,
        key: SessionKey,
        after_seq: int,
        before_seq: int | None = None,
        *,
        limit: int = PAGE,
        max_bytes: int = PAGE_BYTES,
        after_s: float | None = None,
        newest: bool = False,
    ) -> list[StoredEvent]:
        """Events between two positions, oldest first: at most `limit`, fewer when they are large, none when there are none.

        Args:
            max_bytes: about so large they may be together, as far as the first ones are like the others.
            newest: those before `before_seq` instead of those after `after_seq`.
        """
        found: list[StoredEvent] = []
        count = min(FIRST_READ, limit)
        while count > 0:
            page = await self.events(key, after_seq=after_seq, before_seq=before_seq, limit=count, after_s=after_s, newest=newest)
            found = page + found if newest else found + page
            if len(page) < count:
                break
            after_seq, before_seq = (after_seq, found[0].seq) if newest else (found[-1].seq, before_seq)
            size = sum(len(stored.raw) for stored in found)
            count = min(limit, len(found) * max_bytes // (size + 1)) - len(found)
        return found

    async def recall(self, key: SessionKey, turn: SessionTurn, up_to: int | None = None) -> float:
        """Fold into `turn` its events as the store has them, in place of those folded before; with `up_to` only up to there.

        Returns:
            The time of the newest event that was read, in seconds since the epoch; 0 where there is none.
        """
        folded: list[tuple[EventScan, int]] = []
        after_seq, newest_s = turn.row.first_seq - 1, 0.0
        while page := await self.page(key, after_seq):
            # A turn that was paused long ago has thousands of events of other turns after it: only its own are kept.
            scanned = [(scan(stored.raw), stored.seq) for stored in page]
            folded += [(event, seq) for event, seq in scanned if event.invocation_id == turn.row.invocation_id]
            after_seq, newest_s = page[-1].seq, scanned[-1][0].timestamp
        turn.forget_events()
        for event, seq in folded:
            if up_to is None or seq <= up_to:
                turn.fold(event, seq)
        return newest_s

    async def event(self, key: SessionKey, seq: int) -> StoredEvent | None:
        """The event at a position, or None."""
        await self._access.commits.flush()
        return await self.at(key, seq)

    async def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        """The record of a turn, or None. One that has ended says so, also while its end is still to be stored."""
        await self._access.commits.flush()
        row = await self._access.read(self._store.turn, key, invocation_id)
        return self._access.pending_ends.newest(key, row) if row is not None else None

    async def turns(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        """The records of turns, newest first: see `LogStore.turns`. Ended ones say so, as in `turn`."""
        await self._access.commits.flush()
        owed = self._access.pending_ends.of(wanted)
        rows = await self._access.read(self._store.turns, msgspec.structs.replace(wanted, limit=wanted.limit + len(owed)))
        ends = self._access.pending_ends
        return with_ends([(key, ends.newest(key, row)) for key, row in rows], owed, wanted) if len(ends) else rows

    async def turns_of(self, key: SessionKey) -> AsyncIterator[TurnRow]:
        """The records of all turns of a session, newest first."""
        wanted = TurnFilter(app=key.app, user=key.user, session=key.session, limit=PAGE)
        while page := [row for _, row in await self.turns(wanted)]:
            for row in page:
                yield row
            wanted = msgspec.structs.replace(wanted, before=(page[-1].begun_s, page[-1].invocation_id))

    async def count_turns(self, app: str, status: Literal["running", "paused"]) -> int:
        """Count the turns of the app that have a status: see `LogStore.count_turns`."""
        await self._access.commits.flush()
        owed = self._access.pending_ends.of(TurnFilter(app=app))
        count = await self._access.read(self._store.count_turns, app, status)
        return max(0, count - len(owed)) if status == "running" else count + sum(end.status == status for _, end in owed)

    def open_turn(self, key: SessionKey, row: TurnRow | None) -> SessionTurn | None:
        """The turn that is open in the store: one that ran when the Session actor or the whole deployment was lost.

        Its events are not folded yet: see `recall`.

        Args:
            row: its record; None when there is none.
        """
        if row is None or self._access.pending_ends.has(key, row.invocation_id, row.epoch):
            return None
        turn = self.turn_of(row)
        turn.is_recalled = True
        return turn

    def turn_of(self, row: TurnRow) -> SessionTurn:
        """The turn of a record. Its events are not folded yet: see `recall`."""
        return SessionTurn.of(row, self.extensions)

    async def open_turns(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        """The records of all open turns of an app."""
        await self._access.commits.flush()
        return await self._access.read(self._store.running, app)

    async def calls(self, key: SessionKey, call_ids: Sequence[str]) -> list[CallRow]:
        """The function calls with these ids, in this order. Raises UnknownFunctionCallError for an id that the log has not."""
        if call_ids:
            await self._access.commits.flush()
        calls = []
        for call_id in call_ids:
            found = await self._access.read(self._store.call, key, call_id)
            if found is None:
                raise UnknownFunctionCallError(call_id, key.session)
            calls.append(found)
        return calls

    async def position(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        """The position and the invocation id of an event, or None."""
        await self._access.commits.flush()
        return await self._access.read(self._store.place, key, event_id)

    async def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        """The authors before a position, the most recent first."""
        return await self._access.read(self._store.authors, key, before_seq)

    async def undos(self, key: SessionKey, first_seq: int) -> list[Mapping[str, list[JsonValue]]]:
        """The state that events from a position on have overwritten, newest first: see `rules.checks.state.overwritten`."""
        found = await self._access.read(self._store.undos, key, first_seq)
        return [decode(undo, dict) for _, undo in found]


def with_ends(
    stored: Sequence[tuple[SessionKey, TurnRow]], owed: Sequence[tuple[SessionKey, TurnRow]], wanted: TurnFilter
) -> list[tuple[SessionKey, TurnRow]]:
    """Records of turns as the store has them, with the ends of some that it does not know yet.

    Args:
        stored: those that the filter wants, newest first, and so many more than its limit as there are ends.
        owed: the ends, also of turns that the filter does not want.
    """
    found = {(key, row.invocation_id): (key, row) for key, row in stored}
    for key, end in owed:
        _, row = found.get((key, end.invocation_id), (key, end))
        if row.epoch <= end.epoch:
            found[key, end.invocation_id] = (key, end)
    listed = [(key, row) for key, row in found.values() if _is_wanted(row, wanted)]
    return sorted(listed, key=lambda each: _place(each[1]), reverse=True)[: wanted.limit]


def _is_wanted(row: TurnRow, wanted: TurnFilter) -> bool:
    return wanted.status in ("", row.status) and (wanted.before is None or _place(row) < wanted.before)


def _place(row: TurnRow) -> tuple[float, str]:
    return row.begun_s, row.invocation_id


States = tuple[SharedState, SharedState]
"""The state of a session's app, and of its user."""


class SessionReads:
    """Reads sessions."""

    def __init__(self, access: StoreAccess, reader: LogReader, shared: SharedStates) -> None:
        self._access = access
        self._reader = reader
        self._shared = shared
        self._new = GroupedReads(self._read_new)

    async def one(self, key: SessionKey, *, again: bool, is_new: bool = False) -> tuple[StoredSession, States]:
        """A session, and the states that it shares. Raises StoreError.

        Args:
            again: these are read anew.
            is_new: these are read as they are now: see `new`.
        """
        known = self._shared.current if is_new else self._shared.in_memory
        shared = None if again else known(key)
        if shared is not None:
            return await self._reader.session(key, shared=None), shared
        reading = self._shared.reading(key.app, (key.user,), again=again)
        found = await self._reader.session(key, shared=reading)
        assert found.shared is not None
        states = self._shared.as_read(reading, found.shared)
        return found, (states[""], states[key.user])

    async def new(self, key: SessionKey) -> tuple[StoredSession, States]:
        """The same of a session that may be new: it has the states as they are now, with no other look at the store.

        Many that are asked for at once are read in one go. Raises StoreError.
        """
        return await self._new.of(key)

    async def _read_new(self, keys: Sequence[SessionKey]) -> Mapping[SessionKey, tuple[StoredSession, States]]:
        if len(keys) == 1:
            [key] = keys
            return {key: await self.one(key, again=False, is_new=True)}
        found: dict[SessionKey, tuple[StoredSession, States]] = {}
        for app in dict.fromkeys(key.app for key in keys):
            of_app = [key for key in keys if key.app == app]
            known = {key: self._shared.current(key) for key in of_app}
            unknown = {key.user for key, states in known.items() if states is None}
            reading = self._shared.reading(app, unknown) if unknown else None
            stored, read = await self._access.read(self._stored, of_app, reading)
            states = self._shared.as_read(reading, read) if reading is not None else {}
            found.update((key, (stored[key], known[key] or (states[""], states[key.user]))) for key in of_app)
        return found

    def _stored(
        self, keys: Sequence[SessionKey], shared: StatesReading | None
    ) -> tuple[Mapping[SessionKey, StoredSession], StoredStates]:
        """In the store's thread."""
        store = self._access.store
        found = {key: stored_session(store, key) for key in store.may_exist(keys)}
        missing = StoredSession(None, None, None)
        return {key: found.get(key, missing) for key in keys}, shared() if shared is not None else {}
