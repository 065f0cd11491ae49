"""The parts of the Session actor that its handlers share, and the seams by which features join them.

A feature is a `SessionService` with handlers of its own, and puts hooks into `SessionParts`. The core knows none by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from msgspec.structs import replace

from actors.actor import Handler, Handlers, KeyedLocks
from actors.errors import RequestError, TurnError
from actors.interfaces.stores import PutTurn, TurnRow, Write
from actors.messages import protocol as p
from actors.messages.protocol.base import Message, Request
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey, Shard
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
from actors.rules.accounting import Tallies
from actors.rules.routing.selection import deciding
from actors.session.environment import SessionEnvironment
from actors.session.log.event_scan import EventScan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.reader import LogReader
from actors.session.log.session_log import SessionLog
from actors.session.log.shared_state import SharedStates
from actors.session.log.writer import Admission, Events, LogWriter
from actors.session.store.access import StoreAccess
from actors.session.subscriptions import Subscriptions


@dataclass(slots=True)
class _Place:
    """A Runner with its term, and how many have announced themselves in its place."""

    runner: str
    number: int = 0
    term: int = 0


class Runners:
    """Knows the Runners that live from those that were lost, of which messages may still come.

    Who comes first in a place has it without a word: should it be one that was lost, its successor announces itself. Should it
    be the successor, its messages tell its term, and one before it that lives on does not get the place.
    """

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def refusal(self, runner: str, term: int = 0) -> p.NotLeader | None:
        """The reply to a Runner in whose place another one is. 0 for `term`: its message does not tell it."""
        place = self._place(runner, term)
        if place.runner != runner:
            return p.NotLeader(number=place.number, term=place.term)
        place.term = max(term, place.term)
        return None

    def announce(self, runner: str, number: int, term: int = 0) -> p.NotLeader | None:
        """Give a Runner its place, unless another one has announced itself since it was told the number, or has a later term."""
        place = self._place(runner)
        if place.number != number or term < place.term:
            return p.NotLeader(number=place.number, term=place.term)
        place.runner, place.number, place.term = runner, number + 1, term
        return None

    def _place(self, runner: str, term: int = 0) -> _Place:
        # The name of the actor, which those that are started again have in common.
        name = runner.rpartition("/")[0] or runner
        return self._places.setdefault(name, _Place(runner, term=term))


class VersionChange(TurnExtension):
    """Notes that a turn goes on by another version of the tree than it has begun with.

    Attributes:
        seq: up to this position it ran by another version, which its deployment does not have any more; 0: it ran by one.
    """

    name: ClassVar[str] = "version"
    seq: int = 0

    def describe(self, info: TurnInfo) -> TurnInfo:
        """See TurnExtension."""
        return replace(info, version_seq=self.seq) if self.seq else info


class SessionVersions:
    """The versions of the tree in a Session actor. Answers GetTopology. At first there is the one of the deployment's start.

    Attributes:
        first, current: the names of that one, and of the version that new turns get.
        topologies: the parent maps of all versions, by their names.
        choose: gives the version of a new turn of a session, while not all sessions get the current one.
    """

    choose: Callable[[SessionLog], str] | None = None

    def __init__(self, environment: SessionEnvironment) -> None:
        self.first = self.current = environment.version
        self.topologies: Mapping[str, Topology] = {environment.version: environment.topology}

    def topology(self, version: str) -> Topology:
        """The parent map of a version; that of the current one, if the deployment does not have it."""
        return self.topologies.get(version, self.topologies[self.current])

    def of_new(self, log: SessionLog) -> str:
        """The name of the version that a new turn of a session gets."""
        return self.choose(log) if self.choose is not None else self.current

    def go_on(self, log: SessionLog, turn: SessionTurn, seq: int) -> None:
        """Have a turn go on by its version, from a position of its log on, or by another one if the deployment lacks that."""
        if turn.row.version not in self.topologies and (version := self.of_new(log)) != turn.row.version:
            turn.row = replace(turn.row, version=version)
            VersionChange.of(turn).seq = seq

    async def get_topology(self, message: p.GetTopology) -> p.TopologyReply:
        """The parent map of the current version, unless it is known."""
        if message.known and message.known == self.current:
            return p.TopologyReply(version=self.current)
        return p.TopologyReply(topology=self.topology(self.current), version=self.current)


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
        row = replace(end, usage=b"")
        record = PutTurn(log.key, row, log.updated_s)
        self.access.pending_ends.add(record, also, lambda: self.ended(log.key), is_doubtful=is_doubtful)

    def ended(self, key: SessionKey) -> None:
        """Tell features that the end of a turn is stored."""
        for hook in self.ending_hooks:
            hook.ended(key)


class SessionService:
    """A feature of the Session actor. It is made with the actor's parts, and lives as long as the actor."""

    def handlers(self) -> Handlers:
        """The messages that it takes, each of them with its handler. Each comes to it behind what its lane has it wait for."""
        return {}

    def around(self, kind: type[Request[Message]], handler: Handler) -> Handler:
        """The handler of a message, of the core or of any service, with what this service does before and after it."""
        return handler

    async def close(self) -> None:
        """Release what it holds. The store is open until all services have done so."""


Services = Callable[[SessionParts], Sequence[SessionService]]
"""Makes the services of a Session actor. They are closed in their order, and those before are outside in `around`."""


def no_services(_: SessionParts) -> Sequence[SessionService]:
    """Make none: the actor does what a plain conversation needs."""
    return ()
