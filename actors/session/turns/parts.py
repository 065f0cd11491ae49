"""The parts of the Session actor that its handlers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from actors.errors import RequestError, TurnError
from actors.interfaces.records import PutTurn, TurnRow, Write
from actors.messages import protocol as p
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey, Shard
from actors.refs.keyed_locks import KeyedLocks
from actors.rules.accounting.tallies import Tallies
from actors.rules.routing.selection import deciding
from actors.session.admission import Admission
from actors.session.environment import SessionEnvironment
from actors.session.log.event_scan import EventScan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.log.writer import Events, LogWriter
from actors.session.store.access import StoreAccess
from actors.session.subscribers.subscriptions import Subscriptions
from actors.session.turns.runners import Runners
from actors.session.versions import SessionVersions

AppendHook = Callable[[SessionLog, p.Append, Events], Sequence[Write]]
"""Takes the log, the request and its events, with the notes before them. Returns writes."""


RemovalHook = Callable[[SessionKey], Awaitable[Sequence[Write]]]
"""Takes a session. Returns writes. Raises SessionBusyError: it may not be removed. StoreError."""


DueRefusal = Callable[[p.OpenTurn, ScheduledTime], Awaitable[RequestError | TurnError | None]]
"""Says why a turn may not begin that is due and not there; None: it may. Asked each time when the turn has waited."""


LeavingHook = Callable[[SessionLog, p.OpenTurn, EventScan], Awaitable[p.MessageLeft | None]]
"""Stores a message that steers for the turn that runs, or behind those that wait. None: it begins a turn, or was read."""


class DueHook(Protocol):
    """The part of a feature in the opening of turns that are due."""

    def writes(self, key: SessionKey, due: ScheduledTime) -> Sequence[Write]:
        """Writes that are stored with the beginning of the turn. Raises RequestError, TurnError: it may not begin any more."""
        ...

    def opened(self, due: ScheduledTime) -> None:
        """Called when the beginning is stored."""
        ...


class EndingHook(Protocol):
    """The part of a feature in the end of turns, pauses among them."""

    def writes(self, log: SessionLog, turn: SessionTurn, outcome: p.AnyOutcome, events: Events) -> Sequence[Write]:
        """Writes that are stored with the end of the turn, and with the events with which it ends."""
        ...

    def ended(self, key: SessionKey) -> None:
        """Called when the turn has ended, and when that is stored later than that."""
        ...


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What the handlers of one Session actor work with.

    Attributes:
        shard: the sessions that the actor serves.
        counts: the actor's figures.
        changes: of sessions between turns; those of one session wait for each other.
        append_hooks: called with what a run appends, before it is checked. What they return is stored with it.
        due_refusals, due_hooks: see `DueRefusal` and `DueHook`. Turns that are due are those with an `OpenTurn.due`.
        leaving_hooks, ending_hooks: see `LeavingHook` and `EndingHook`.
        removal_hooks: called before a session is removed. What they return is stored with that.
    """

    environment: SessionEnvironment
    versions: SessionVersions
    shard: Shard
    counts: Counter[str]
    access: StoreAccess
    shared: SharedStates
    reader: LogReader
    logs: SessionLogs
    subscriptions: Subscriptions
    writer: LogWriter
    admission: Admission
    runners: Runners
    tallies: Tallies
    changes: KeyedLocks[SessionKey]
    append_hooks: list[AppendHook] = field(default_factory=list)
    due_refusals: list[DueRefusal] = field(default_factory=list)
    due_hooks: list[DueHook] = field(default_factory=list)
    leaving_hooks: list[LeavingHook] = field(default_factory=list)
    ending_hooks: list[EndingHook] = field(default_factory=list)
    removal_hooks: list[RemovalHook] = field(default_factory=list)

    def forget_user(self, app: str, user: str) -> None:
        """Have everything of a user read from the store again, also what a reader has loaded since it was changed there."""
        for log in self.logs.all_in_memory():
            if (log.key.app, log.key.user) == (app, user) and log.queue.is_idle():
                self.logs.evict(log.key)
        self.shared.mark_stale(SessionKey(app, user, ""))
        self.admission.forget_state(SessionKey(app, user, ""))

    def deciding(self, authors: Iterable[str], version: str = "") -> tuple[str, ...]:
        """Those of a log's authors, the most recent first, that decide which agent of a version is selected."""
        return deciding(self.versions.topology(version), authors)

    def ending(self, log: SessionLog, turn: SessionTurn, outcome: p.AnyOutcome, events: Events = ()) -> list[Write]:
        """Writes of features that are stored with the end of a turn."""
        return [write for hook in self.ending_hooks for write in hook.writes(log, turn, outcome, events)]

    def store_end_later(self, log: SessionLog, end: TurnRow, also: Sequence[Write] = (), *, is_doubtful: bool = False) -> None:
        """Have the end of a turn stored when the store is back, if the turn is still open there: see PendingTurnEnds.add.

        What is known of its events may not have got to the disk, so what it has used is read from those that have.
        """
        row = msgspec.structs.replace(end, usage=b"")
        record = PutTurn(log.key, row, log.updated_s)
        self.access.pending_ends.add(record, also, lambda: self.ended(log.key), is_doubtful=is_doubtful)

    def ended(self, key: SessionKey) -> None:
        """Tell features that the end of a turn is stored."""
        for hook in self.ending_hooks:
            hook.ended(key)
