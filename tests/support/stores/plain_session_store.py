"""A session store in plain Python: the shortest program that keeps the contract, as a model for the real stores."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import msgspec

from actors.errors import SessionExistsError, StoreConflictError, StoreError
from actors.interfaces.stores import (
    AddEvent,
    CallRow,
    CreateSession,
    EventRow,
    HideEvents,
    PutState,
    PutTurn,
    RemoveSession,
    SessionRow,
    TurnFilter,
    TurnRow,
    Write,
)
from actors.layers.stores.parts import SessionStore
from actors.layers.stores.records import (
    AddModelCall,
    AddSchedule,
    AdvanceSchedule,
    ArchiveEvents,
    DeleteModelCalls,
    ForgetBatches,
    ForgetRemoval,
    NoteRemoval,
    OldSession,
    PutBatch,
    RemoveSchedule,
    SetDueTime,
)
from actors.messages.codec import encode
from actors.messages.session import SessionKey, SessionPlace
from actors.rules.routing.selection import is_selectable

IGNORED = (
    ArchiveEvents,
    AddModelCall,
    DeleteModelCalls,
    SetDueTime,
    AdvanceSchedule,
    RemoveSchedule,
    ForgetBatches,
)
"""Writes that change nothing where no archive, no model calls, schedules or batches are kept."""


@dataclass
class _Log:
    created_s: float
    updated_s: float
    rewinds: int = 0
    events: list[EventRow] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    authors: dict[str, int] = field(default_factory=dict)
    turns: dict[str, TurnRow] = field(default_factory=dict)

    @property
    def visible(self) -> list[EventRow]:
        return [event for event in self.events if event.seq not in self.hidden]


@dataclass
class _Tables:
    logs: dict[SessionKey, _Log] = field(default_factory=dict)
    state: dict[SessionKey, dict[str, Any]] = field(default_factory=dict)
    removals: dict[SessionKey, OldSession] = field(default_factory=dict)


class PlainStore(SessionStore):
    """A `SessionStore` that forgets everything when it is dropped. It keeps nothing besides sessions."""

    def __init__(self) -> None:
        self._tables = _Tables()

    def open(self) -> None:
        """Nothing to connect to."""

    def close(self) -> None:
        """Nothing to let go of."""

    def commit(self, writes: Sequence[Write]) -> None:
        tables = copy.deepcopy(self._tables)
        for write in writes:
            _do(tables, write)
        self._tables = tables

    def session(self, key: SessionKey) -> SessionRow | None:
        log = self._tables.logs.get(key)
        if log is None:
            return None
        return self._row(key, log, tuple(sorted(log.authors.items(), key=lambda entry: -entry[1])))

    def sessions(
        self, app: str, user: str | None, *, limit: int | None = None, before: SessionPlace | None = None
    ) -> list[SessionRow]:
        found = [(key, log) for key, log in self._tables.logs.items() if key.app == app and user in (None, key.user)]
        placed = sorted(
            ((SessionPlace(log.updated_s, key.user, key.session), key, log) for key, log in found),
            key=itemgetter(0),
            reverse=True,
        )
        return [self._row(key, log, ()) for place, key, log in placed if before is None or place < before][:limit]

    def events(
        self,
        key: SessionKey,
        *,
        after_seq: int = 0,
        limit: int | None = None,
        after_s: float | None = None,
        newest: bool = False,
        before_seq: int | None = None,
    ) -> list[tuple[int, bytes]]:
        log = self._tables.logs.get(key)
        seen = [] if log is None else [event for event in log.visible if after_seq < event.seq < (before_seq or math.inf)]
        found = [(event.seq, event.raw) for event in seen if after_s is None or event.head.timestamp >= after_s]
        if limit is None:
            return found
        return found[max(len(found) - limit, 0) :] if newest else found[:limit]

    def undos(self, key: SessionKey, first_seq: int) -> list[tuple[int, bytes]]:
        log = self._tables.logs.get(key)
        return [] if log is None else [(row.seq, row.undo) for row in log.events[::-1] if row.seq >= first_seq and row.undo]

    def state(self, app: str, user: str) -> tuple[dict[str, Any], dict[str, Any]]:
        scopes = SessionKey(app, "", ""), SessionKey(app, user, "")
        of_app, of_user = (dict(self._tables.state.get(scope, {})) for scope in scopes)
        return of_app, of_user

    def turn(self, key: SessionKey, invocation_id: str) -> TurnRow | None:
        log = self._tables.logs.get(key)
        turn = log.turns.get(invocation_id) if log is not None else None
        return turn if log is not None and turn is not None and turn.first_seq not in log.hidden else None

    def turns(self, wanted: TurnFilter) -> list[tuple[SessionKey, TurnRow]]:
        found = []
        for key, log in self._tables.logs.items():
            if key.app != wanted.app or wanted.user not in (None, key.user) or wanted.session not in (None, key.session):
                continue
            for turn in log.turns.values():
                if turn.first_seq not in log.hidden and wanted.status in ("", turn.status):
                    last = max((event.seq for event in log.events), default=0) if turn.status == "running" else turn.last_seq
                    found.append((key, msgspec.structs.replace(turn, last_seq=last)))
        found.sort(key=lambda each: (each[1].begun_s, each[1].invocation_id), reverse=True)
        before = wanted.before
        return [(key, turn) for key, turn in found if before is None or (turn.begun_s, turn.invocation_id) < before][
            : wanted.limit
        ]

    def count_turns(self, app: str, status: str) -> int:
        return len(self.turns(TurnFilter(app=app, status=status, limit=2**31)))

    def running(self, app: str) -> list[tuple[SessionKey, TurnRow]]:
        logs = [(key, log) for key, log in self._tables.logs.items() if key.app == app]
        turns = [(key, turn) for key, log in logs for turn in log.turns.values() if turn.first_seq not in log.hidden]
        return [(key, turn) for key, turn in turns if turn.status == "running"]

    def running_turn(self, key: SessionKey) -> TurnRow | None:
        return next((turn for at, turn in self.running(key.app) if at == key), None)

    def authors(self, key: SessionKey, before_seq: int) -> list[str]:
        log = self._tables.logs.get(key)
        before = [event.head.author for event in log.visible if event.seq < before_seq] if log is not None else []
        return list(dict.fromkeys(before[::-1]))

    def place(self, key: SessionKey, event_id: str) -> tuple[int, str] | None:
        log = self._tables.logs.get(key)
        found = [event for event in log.visible if event.head.id == event_id] if log is not None else []
        return (found[0].seq, found[0].head.invocation_id) if found else None

    def call(self, key: SessionKey, call_id: str) -> CallRow | None:
        log = self._tables.logs.get(key)
        for event in [] if log is None else log.visible[::-1]:
            if call_id in event.calls:
                head = event.head
                return CallRow(call_id=call_id, seq=event.seq, author=head.author, invocation_id=head.invocation_id)
        return None

    def old_sessions(
        self, app: str, user: str | None, before_s: float, *, limit: int, after: SessionPlace | None = None
    ) -> list[OldSession]:
        found = []
        for key, log in self._tables.logs.items():
            last_s = max([log.created_s, log.updated_s, *(event.head.timestamp for event in log.events[-1:])])
            waits = any(turn.status in ("running", "paused") and turn.first_seq not in log.hidden for turn in log.turns.values())
            if key.app == app and user in (None, key.user) and last_s < before_s and not waits:
                found.append(OldSession(key, log.updated_s, max((event.seq for event in log.events), default=0), len(log.turns)))
        found.sort(key=lambda each: each.place)
        return [each for each in found if after is None or each.place > after][:limit]

    def removals(self, app: str, user: str | None) -> list[OldSession]:
        noted = sorted(self._tables.removals.items())
        return [each for key, each in noted if key.app == app and user in (None, key.user)]

    def _row(self, key: SessionKey, log: _Log, authors: tuple[tuple[str, int], ...]) -> SessionRow:
        return SessionRow(
            key=key,
            head_seq=max((event.seq for event in log.events), default=0),
            rewinds=log.rewinds,
            authors=authors,
            state=dict(self._tables.state.get(key, {})),
            created_s=log.created_s,
            updated_s=log.updated_s,
        )


def _do(tables: _Tables, write: Write) -> None:
    key = write.key
    if isinstance(write, CreateSession):
        if key in tables.logs:
            raise SessionExistsError(key.app, key.user, key.session)
        tables.logs[key] = _Log(created_s=write.created_s, updated_s=write.created_s)
    elif isinstance(write, RemoveSession):
        tables.logs.pop(key, None)
        tables.state.pop(key, None)
    elif isinstance(write, NoteRemoval):
        tables.removals.setdefault(key, write.session)
    elif isinstance(write, ForgetRemoval):
        tables.removals.pop(key, None)
    elif isinstance(write, AddSchedule):
        raise StoreError("it keeps no schedules")
    elif isinstance(write, PutBatch):
        raise StoreError("it keeps no batches")
    elif isinstance(write, IGNORED):
        pass
    elif key.session and key not in tables.logs:
        raise StoreConflictError(key.session, "it is not there")
    elif isinstance(write, PutState):
        encode(write.values)
        state = tables.state.setdefault(key, {})
        state.update(write.values)
        for name in write.removed:
            state.pop(name, None)
    elif isinstance(write, AddEvent | HideEvents | PutTurn):
        _do_in_log(tables.logs[key], write)
    else:
        raise AssertionError(f"an unknown write: {write}")


def _do_in_log(log: _Log, write: AddEvent | HideEvents | PutTurn) -> None:
    if isinstance(write, PutTurn):
        log.turns[write.row.invocation_id] = write.row
        if write.changes_time:
            log.updated_s = write.updated_s
        else:
            # It may have a later one: that of an end that could not be stored in time.
            assert log.updated_s >= write.updated_s
    elif isinstance(write, HideEvents):
        log.hidden |= {event.seq for event in log.events if write.first_seq <= event.seq <= write.last_seq}
        log.rewinds += 1
        for author, seq in list(log.authors.items()):
            if write.first_seq <= seq <= write.last_seq:
                del log.authors[author]
                log.authors.update((author, event.seq) for event in log.visible if event.head.author == author)
    else:
        row = write.row
        if any(event.head.id == row.head.id for event in log.events):
            raise StoreConflictError(write.key.session, f"event {row.head.id!r} is there already")
        if any(event.seq == row.seq for event in log.events):
            raise StoreConflictError(write.key.session, f"place {row.seq} of its log is taken")
        if write.takes_floor and is_selectable(row.head.author):
            log.authors[row.head.author] = row.seq
        log.events.append(row)
        log.events.sort(key=lambda event: event.seq)
