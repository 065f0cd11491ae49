"""Defects of the log and its way to the store: what is acknowledged and shown when, and what follows a commit that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from actors.errors import SessionExistsError, StoreConflictError
from actors.interfaces.records import PutTurn, TurnFilter, TurnRow, Write
from actors.interfaces.stores import SessionStore
from actors.messages.session import SessionKey
from actors.session.log import reader
from actors.session.log.commits import LogCommits
from actors.session.log.open_turn import SessionTurn
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events, LogWriter
from actors.session.store import group_commit
from actors.session.store.group_commit import GroupCommit, Transaction
from actors.session.store.pending_writes import WriteRequest
from actors.session.turns.parts import SessionParts
from runtime.stores.sql.writers import WriterClaim


def events_are_not_recognised() -> AbstractContextManager[object]:
    """An event that is sent again is not known by its id."""
    note: Any = SessionTurn.note

    def forgetful(self: SessionTurn, event: Any, seq: int) -> None:
        note(self, event, seq)
        if event.author != "user":
            del self.stored[event.id]

    return mock.patch.object(SessionTurn, "note", forgetful)


def logs_are_read_while_a_message_is_stored() -> AbstractContextManager[object]:
    """An agent that has begun early reads a log without the message that it is to answer."""

    async def at_once(self: LogCommits, log: SessionLog) -> None:
        """Wait for nothing."""

    return mock.patch.object(LogCommits, "opened", at_once)


def writers_are_not_fenced() -> AbstractContextManager[object]:
    """A Session actor that was replaced commits what it was asked."""

    def lenient(self: WriterClaim, connection: Any) -> None:
        """Look at nothing."""

    return mock.patch.object(WriterClaim, "count", lenient)


def commits_are_acknowledged_early() -> AbstractContextManager[object]:
    """What is on its way to the disk is acknowledged."""
    add = GroupCommit._add

    def early(self: GroupCommit, request: WriteRequest) -> None:
        add(self, request)
        if request.tell is not None:
            asyncio.get_running_loop().call_soon(request.tell, None)
            request.tell = None
        if request.done is not None:
            request.done.set_result(None)

    return mock.patch.object(GroupCommit, "_add", early)


def commits_are_shown_early() -> AbstractContextManager[object]:
    """What is on its way to the disk is shown to readers."""
    add = GroupCommit._add

    def early(self: GroupCommit, request: WriteRequest) -> None:
        request.then()
        request.then = lambda: None
        add(self, request)

    return mock.patch.object(GroupCommit, "_add", early)


def conflicts_are_swallowed() -> AbstractContextManager[object]:
    """Writes that the store refuses since it has others there count as stored."""

    def lenient(self: Transaction) -> None:
        try:
            self._store.commit(self._writes)
        except (StoreConflictError, SessionExistsError):
            """As if it were stored."""

    return mock.patch.object(Transaction, "__call__", lenient)


def commits_of_broken_connections_are_not_recognised() -> AbstractContextManager[object]:
    """Writes that were stored by a commit which failed are in conflict with themselves."""

    def never(store: SessionStore, writes: Sequence[Write]) -> bool:
        return False

    return mock.patch.object(group_commit, "is_stored", never)


def logs_have_holes_after_failures() -> AbstractContextManager[object]:
    """What follows an event that could not be stored is stored."""

    def never(self: GroupCommit, request: WriteRequest) -> bool:
        return False

    return mock.patch.object(GroupCommit, "_is_refused", never)


def failed_logs_are_not_loaded_again() -> AbstractContextManager[object]:
    """A log goes on from what memory has of it after a commit has failed."""

    def nothing(self: SessionLog) -> None:
        """Mark nothing."""

    return mock.patch.object(SessionLog, "mark_stale", nothing)


def times_stay_as_they_were() -> AbstractContextManager[object]:
    """No record of a turn changes when its session was written to last."""

    def put_turn(self: SessionLog, row: TurnRow) -> PutTurn:
        return PutTurn(self.key, row, self.updated_s, changes_time=False)

    return mock.patch.object(SessionLog, "put_turn", put_turn)


def loaded_logs_are_as_old_as_records_of_turns() -> AbstractContextManager[object]:
    """A log that is loaded in a turn does not take the time of its newest event."""
    recall: Any = LogReader.recall

    async def without_time(self: LogReader, key: SessionKey, turn: SessionTurn, up_to: int | None = None) -> float:
        await recall(self, key, turn, up_to)
        return 0.0

    return mock.patch.object(LogReader, "recall", without_time)


def ends_that_failed_are_not_owed() -> AbstractContextManager[object]:
    """The end of a turn that could not be stored is forgotten."""

    def nothing(self: SessionParts, log: SessionLog, end: TurnRow, *, is_doubtful: bool = False) -> None:
        """Owe nothing."""

    return mock.patch.object(SessionParts, "store_end_later", nothing)


def failing_stores_are_not_waited_for() -> AbstractContextManager[object]:
    """A request fails at once when the store is away."""
    return mock.patch("actors.rules.recovery.store_outage.pause_s", return_value=None)


def owed_ends_are_not_listed() -> AbstractContextManager[object]:
    """Turns that have ended, and whose ends the store does not know yet, are listed as running."""

    def as_stored(stored: Sequence[Any], owed: Sequence[Any], wanted: TurnFilter) -> Sequence[Any]:
        return stored[: wanted.limit]

    return mock.patch.object(reader, "with_ends", as_stored)


def last_events_count_nothing() -> AbstractContextManager[object]:
    """What the event has used that carries the end of a turn is not in the turn's sums."""

    taken_in = LogWriter._taken_in

    def without(self: LogWriter, log: SessionLog, events: Events, writes: Any, then: Any, end: Any) -> Any:
        if end is None:
            return taken_in(self, log, events, writes, then, end)
        usage = end().usage
        return taken_in(self, log, events, writes, then, lambda: msgspec.structs.replace(end(), usage=usage))

    return mock.patch.object(LogWriter, "_taken_in", without)
