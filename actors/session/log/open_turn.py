"""The open turn of a session in memory, its ledger, and its record in the store.

Rules of the ledger: each event is counted once, when it is folded in, and every figure about the turn is a view of these sums. A
model call is an event of a model's response, whether it was a step of its agent or not, such as a summary. A response that a
callback has given in place of the model is a step of the agent, and counts for the limit of calls, too.

A feature that keeps something of each turn is a `TurnExtension`. A Session actor is given their classes (`EXTENSIONS` in
`actors.layers.services`); this module and the handlers of turns import none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from actors.interfaces.stores import TurnRow
from actors.messages.codec import decode, encode
from actors.messages.config import DEFAULT_RUN_CONFIG, RunConfig
from actors.messages.event import USER, now_s
from actors.messages.json_types import JsonObject, Progress
from actors.messages.protocol import runs as outcomes
from actors.messages.protocol.base import TurnRef
from actors.messages.protocol.turns import TransferRecord, TurnProgress
from actors.messages.turn_info import TurnInfo
from actors.rules.accounting import Amounts, Spender, Spent, add_used, packed, unpacked
from actors.rules.routing.branches import state_key
from actors.rules.routing.pending import PendingCalls
from actors.session.log.event_scan import EventScan


class StoredLedger(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a ledger that is stored with the turn's record; the rest is folded from its events again.

    Attributes:
        extra: what was used apart from its events, packed; b"": nothing.
    """

    extra: bytes = b""
    failed_tools: int = 0


EMPTY = StoredLedger()


class TurnLedger:
    """Counts what the events of a turn have used.

    Args:
        stored: the part in the turn's record.
        usage: what the turn has used, as its record says, packed; b"": only its events say that.

    Attributes:
        extra: what was used apart from its events: by events that were taken back, since they were paid for. Of the copy in a
            fork it is less than nothing: it has paid for none of what it copied.
        steps: by agent, how many model responses the log has that were a step of the agent.
    """

    __slots__ = ("_before_message", "_calls", "extra", "failed_tools", "spent", "steps")

    def __init__(self, stored: StoredLedger = EMPTY, usage: bytes = b"") -> None:
        self.extra: Spent = unpacked(stored.extra) if stored.extra else {}
        self.spent: dict[Spender, Amounts] = {}
        self.forget_events()
        self.failed_tools = stored.failed_tools
        if usage:
            self.spent = unpacked(usage)

    def forget_events(self) -> None:
        """Begin anew: the events of the turn will be folded in again, from the first."""
        self.spent = dict(self.extra)
        self.steps: dict[str, int] = {}
        self.failed_tools = 0
        self._calls: dict[str, int] = {}
        self._before_message: dict[str, int] = {}

    def fold(self, event: EventScan) -> None:
        """Count an event of the turn, which must not be counted twice."""
        author = event.author
        if author == USER:
            if event.opens():
                self._before_message = dict(self._calls)
            return
        add_used(self.spent, author, event.model_version, event.amounts())
        if event.responses:
            self.failed_tools += sum(outcome == "failed" for _, outcome in event.tool_results())
        is_step = event.is_said()
        if is_step:
            self.steps[author] = self.steps.get(author, 0) + 1
        if is_step or event.model_version is not None:
            self._calls[author] = self._calls.get(author, 0) + 1

    @property
    def tokens(self) -> int:
        """The tokens of all of its model calls."""
        return sum(used.input_tokens + used.output_tokens + used.reasoning_tokens for used in self.spent.values())

    def calls_since_message(self) -> dict[str, int]:
        """By agent, the model calls that the log has since the user's last message."""
        before = self._before_message
        return {agent: calls - before.get(agent, 0) for agent, calls in self._calls.items() if calls > before.get(agent, 0)}

    def stored(self) -> StoredLedger:
        """The part that is stored with the turn's record."""
        return StoredLedger(packed(self.extra) if self.extra else b"", self.failed_tools)


_STATUS: dict[type[outcomes.Outcome], str] = {
    outcomes.Finished: "finished",
    outcomes.Transfer: "finished",
    outcomes.Paused: "paused",
    outcomes.Failed: "failed",
    outcomes.Cancelled: "cancelled",
}

OVER = frozenset({"finished", "failed", "cancelled"})
"""Stored states of a turn in which no call of it waits for a function response."""


class TurnExtension(msgspec.Struct, omit_defaults=True):
    """What one feature keeps of a turn: its fields. Each turn has one of each class that the Session actor was given.

    A feature overrides what it needs. Its own handlers get at it with `of`.

    Attributes:
        name: names it in the records of turns, which have its fields.
    """

    name: ClassVar[str]

    @classmethod
    def of(cls, turn: SessionTurn) -> Self:
        """The extension of this class of a turn."""
        found = turn.extensions[cls.name]
        assert isinstance(found, cls)
        return found

    def fold(self, event: EventScan, seq: int) -> None:
        """Take in an event of the turn."""

    def forget_events(self) -> None:
        """Forget what was folded: the events will be folded again, from the first."""

    def dump(self, *, is_over: bool) -> msgspec.Struct:
        """The part of it that is stored with the turn's record: all of its fields. Not asked where they have their defaults.

        Args:
            is_over: the turn has ended for good.
        """
        return self

    def load(self, raw: bytes) -> None:
        """Take what the turn's record has of it in place of what it has in memory.

        Args:
            raw: what `dump` returned, encoded; b"" where that was not stored.
        """
        stored = decode(raw, type(self)) if raw else type(self)()
        for field in self.__struct_fields__:
            setattr(self, field, getattr(stored, field))

    def go_on(self, row: TurnRow, after_seq: int, retried_seq: int | None) -> None:
        """The turn, which has ended or is paused, goes on by an answer or a retry, or is cancelled.

        Args:
            row: its record until now.
            after_seq: it goes on behind this position of the log.
            retried_seq: it is tried again: failures up to this position do not count any more. None: it is not.
        """

    def begin_elsewhere(self, turn: SessionTurn, runner: str) -> None:
        """A Runner takes the open turn up. The id of the one that had it is still in the turn."""

    def fence(self, runs: Iterable[int]) -> None:
        """The runs of these numbers were abandoned: what they send is refused from now on."""

    def take_back(self) -> None:
        """Events of the turn were taken back: it goes on from an earlier step."""

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """The progress of the turn, with what the extension has to say about it."""
        return progress

    def describe(self, info: TurnInfo) -> TurnInfo:
        """The description of the turn in lists, with what the extension has to say about it."""
        return info


class _Checkpoint(msgspec.Struct, omit_defaults=True):
    """The part of a turn's record that is kept so that the turn can go on, or be described, after it has left memory.

    Attributes:
        opened_s: when it went on; 0: it began with its record, and was not opened again.
        late_seqs: see SessionTurn.
        extensions: what `TurnExtension.dump` has returned, by names.
    """

    temp: JsonObject = {}
    config: RunConfig = DEFAULT_RUN_CONFIG
    traceparent: str = ""
    opened_s: float = 0.0
    ledger: StoredLedger = EMPTY
    extensions: dict[str, msgspec.Raw] = {}
    late_seqs: tuple[int, ...] = ()


class SessionTurn(msgspec.Struct, eq=False):
    """The turn that is open in a session. A struct, since each turn has one, and Python would make its fields one by one.

    Attributes:
        row: its record, without what changes at each event.
        config: the options with which it was opened last.
        extensions: what features keep of it, by names: see `TurnExtension.of`.
        runner: the id of the Runner that runs it; "" when that is not known, since an actor was restarted: the turn is lost.
        temp: its `temp:` state, by keys without prefix.
        traceparent: the span of the caller that began it; "" without one.
        opened_s: when it began, or went on, in seconds since the epoch.
        late_seqs: the positions of answers that came when it had ended: they continue nothing.
        is_recalled: it was open before this Session actor, which does not know what was streamed of it before.
        abandoned: the numbers of runs that may write no more.
        stored: the positions of its events, by id, in their order.
        agent_states: what each agent has stored last as `actions.agent_state`, and where: see TurnProgress.
    """

    row: TurnRow
    config: RunConfig
    extensions: Mapping[str, TurnExtension] = {}
    runner: str = ""
    temp: JsonObject = {}
    traceparent: str = ""
    opened_s: float = 0.0
    late_seqs: tuple[int, ...] = ()
    is_recalled: bool = False
    abandoned: set[int] = set()
    stored: dict[str, int] = {}
    calls: PendingCalls = msgspec.field(default_factory=PendingCalls)
    ledger: TurnLedger = msgspec.field(default_factory=TurnLedger)
    agent_states: dict[str, tuple[int, Progress]] = {}
    transfers: list[TransferRecord] = []
    _end: asyncio.Event | None = None

    @classmethod
    def new(cls, row: TurnRow, config: RunConfig, kinds: Iterable[type[TurnExtension]]) -> SessionTurn:
        """A turn that begins. `kinds`: its extensions."""
        return cls(row, config, {kind.name: kind() for kind in kinds}, opened_s=row.begun_s or now_s())

    @classmethod
    def of(cls, row: TurnRow, kinds: Iterable[type[TurnExtension]]) -> SessionTurn:
        """The turn of a record. Its events have to be folded."""
        turn = cls.new(row, DEFAULT_RUN_CONFIG, kinds)
        turn.restore(row)
        return turn

    def restore(self, row: TurnRow) -> None:
        """Take what its record carries in place of what memory has: changes that were to be stored with it were refused."""
        if row.invocation_id != self.row.invocation_id:
            return
        carried = decode(row.temp, _Checkpoint) if row.temp else _Checkpoint()
        self.row = replace(self.row, version=row.version)
        self.config, self.temp, self.traceparent = carried.config, dict(carried.temp), carried.traceparent
        self.opened_s, self.late_seqs = carried.opened_s or self.opened_s, carried.late_seqs
        self.ledger = TurnLedger(carried.ledger, row.usage)
        for name, extension in self.extensions.items():
            extension.load(bytes(carried.extensions[name]) if name in carried.extensions else b"")

    @property
    def head_seq(self) -> int:
        """The position of its newest event."""
        return next(reversed(self.stored.values()), self.row.first_seq)

    def is_written_by(self, turn: TurnRef) -> bool:
        """True when the fencing token names it, in its epoch, and a run that was not abandoned."""
        return self.row.invocation_id == turn.invocation_id and self.row.epoch == turn.epoch and turn.run not in self.abandoned

    @property
    def is_ending(self) -> bool:
        """Its end is on the way to the disk, and nothing else is accepted for it."""
        return self._end is not None

    def begin_end(self) -> None:
        """It is ending, until `end_over` is called. After that it is over, or as open as before."""
        assert self._end is None
        self._end = asyncio.Event()

    def end_over(self) -> None:
        """Its end is on disk, or cannot be."""
        if self._end is not None:
            self._end.set()
            self._end = None

    async def settled(self) -> None:
        """Wait while it is ending."""
        while self._end is not None:
            await self._end.wait()

    def begin_again(self, row: TurnRow, retried_seq: int | None = None) -> None:
        """It goes on, after it has ended or was paused, with this record."""
        self.go_on(max(row.opened_seq - 1, retried_seq or 0), retried_seq)
        self.row, self.opened_s = row, now_s()

    def go_on(self, after_seq: int, retried_seq: int | None = None) -> None:
        """Tell its extensions that it goes on behind a position of the log: see TurnExtension.go_on."""
        for extension in self.extensions.values():
            extension.go_on(self.row, after_seq, retried_seq)

    def begin_elsewhere(self, runner: str) -> None:
        """A Runner takes it up in another epoch. The runs of the one before write no more."""
        self.row = replace(self.row, epoch=self.row.epoch + 1)
        for extension in self.extensions.values():
            extension.begin_elsewhere(self, runner)
        self.runner = runner
        self.abandoned.clear()

    def fence(self, runs: Collection[int]) -> None:
        """Have the runs of these numbers write no more."""
        self.abandoned.update(runs)
        for extension in self.extensions.values():
            extension.fence(runs)

    def take_back(self) -> None:
        """Events of it were taken back: see TurnExtension.take_back."""
        for extension in self.extensions.values():
            extension.take_back()

    def forget_events(self) -> None:
        """Forget its events: they have to be folded again, from the first."""
        self.stored, self.calls, self.agent_states, self.transfers = {}, PendingCalls(), {}, []
        self.ledger.forget_events()
        for extension in self.extensions.values():
            extension.forget_events()

    def fold(self, event: EventScan, seq: int) -> None:
        """Take in an event of the turn."""
        self.stored[event.id] = seq
        self.calls.fold(event.about_calls(), seq, is_late=seq in self.late_seqs)
        self.ledger.fold(event)
        actions = event.actions
        if actions.agent_state is not None:
            self.agent_states[state_key(event.author, event.branch, event.node_path())] = (seq, actions.agent_state)
        if actions.transfer_to_agent is not None:
            self.transfers.append(TransferRecord(seq, event.branch, event.author, actions.transfer_to_agent))
        for extension in self.extensions.values():
            extension.fold(event, seq)

    def record(self) -> TurnRow:
        """Its record, to be stored while it is open. What it has used is read from its events until it ends."""
        return replace(self.row, temp=self.checkpoint(), last_seq=max(self.head_seq, self.row.opened_seq), usage=b"")

    def ended(self, agent: str, outcome: outcomes.AnyOutcome) -> TurnRow:
        """Its record, to be stored when it ends, with the events that were folded last.

        Args:
            agent: the agent that was selected for it.
        """
        status = _STATUS[type(outcome)]
        return replace(
            self.row,
            status=status,
            agent=agent,
            outcome=encode(outcome),
            temp=self.checkpoint(is_over=status not in ("paused", "failed")),
            last_seq=self.head_seq,
            ended_s=now_s(),
            usage=packed(self.ledger.spent),
        )

    def checkpoint(self, *, is_over: bool = False) -> bytes:
        """The part of its record with which it can go on, encoded; b"" when that is nothing, as of most turns.

        Args:
            is_over: it has ended for good: its `temp:` state and its options are not needed any more.
        """
        used = {name: extension for name, extension in self.extensions.items() if extension != type(extension)()}
        extensions = {name: msgspec.Raw(encode(extension.dump(is_over=is_over))) for name, extension in used.items()}
        ledger = self.ledger.stored()
        opened_s = self.opened_s if self.opened_s != self.row.begun_s else 0.0
        if is_over:
            carried = _Checkpoint(ledger=ledger, extensions=extensions)
        else:
            carried = _Checkpoint(self.temp, self.config, self.traceparent, opened_s, ledger, extensions, self.late_seqs)
        return b"" if carried == _NOTHING else encode(carried)

    def progress(self) -> TurnProgress:
        """The progress of the turn."""
        timeout_s = self.config.timeout
        progress = TurnProgress(
            first_seq=self.row.first_seq,
            opened_seq=self.row.opened_seq,
            head_seq=self.head_seq,
            callers=self.calls.callers,
            agent_states=self.agent_states,
            transfers=tuple(self.transfers),
            waiting=() if self.row.opened_seq in self.late_seqs else tuple(self.calls.for_user()),
            model_calls=self.ledger.calls_since_message(),
            under_way=self.calls.under_way(),
            config=self.config if self.config.outlives_pauses else None,
            # The wait of a pause does not count.
            deadline_s=self.opened_s + timeout_s if timeout_s is not None else 0.0,
        )
        for extension in self.extensions.values():
            progress = extension.add_progress(progress)
        return progress

    def describe(self, info: TurnInfo) -> TurnInfo:
        """The description of the turn in lists, with what it has used, and what its extensions have to say."""
        info = replace(info, tokens=self.ledger.tokens, failed_tools=self.ledger.failed_tools)
        for extension in self.extensions.values():
            info = extension.describe(info)
        return info


_NOTHING = _Checkpoint()
