"""What replies promise: all that the Session actor acknowledges or shows is on disk by then, and so is the end of a turn when the
Runner says that it was cancelled.

What a run has sent that was given up, or an attempt of a turn that was, and is not on disk when that is acknowledged, never
comes there.

Early replies promise nothing. While the store fails, a cancelled turn ends at once all the same, and is stored later.

A Runner whose place another one has taken opens, resumes and lists no turns of what it sends from then on.

Of a Runner with a standby the process that leads is never ended as one that was replaced, and one that was replaced announces
itself no more once it was told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from actors.interfaces.stores import TurnRow
from actors.layers.retries import RetryTurn
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.messages.protocol.base import StoredEvent
from actors.messages.session import TurnKey
from tests.simulation.cluster import Sent
from tests.simulation.stores import Disk
from tests.simulation.virtual_loop import SimProcess
from tests.support.any_message import decode_message

PROMISING = frozenset(
    {"Append", "AppendEventRequest", "OpenTurn", "ResumeTurn", "RetryTurn", "CloseTurn", "Poll", "Fetch", "ReadTurn"}
)
"""Classes of messages whose replies are looked at, whoever sends them."""

OF_RUNNERS = frozenset({"OpenTurn", "ResumeTurn", "ListOpenTurns"})
"""Classes of messages that only a Runner in its place may send."""

LET_IN = (p.TurnBegun, p.TurnResumed, p.OpenTurnsReply)
"""Replies that let it do what it asks for."""

CANCEL = "CancelTurn"
"""A message that is looked at when a driver sends it to the Runner."""


class Promises:
    """Looks at replies on their way.

    Args:
        disk: what is stored.
        has_failed: tells whether the store has ever failed.

    Attributes:
        broken: each promise that did not hold when it was made.
    """

    def __init__(self, disk: Disk, has_failed: Callable[[], bool]) -> None:
        self._disk = disk
        self._has_failed = has_failed
        self._to_cancel: dict[int, tuple[TurnKey, TurnRow]] = {}
        self._terms: Counter[SimProcess] = Counter()
        self._told: set[SimProcess | None] = set()
        self._again: set[int] = set()
        self._leads: dict[SimProcess | None, SimProcess] = {}
        self._replaced: dict[tuple[str, int], SimProcess | None] = {}
        self._appends: list[Sent] = []
        self._fenced: dict[str, str] = {}
        self.broken: list[str] = []

    def note(self, sent: Sent) -> None:
        """Look at a message that is sent."""
        if sent.kind == CANCEL and sent.receiver is not None and sent.receiver.name.startswith("runner"):
            message = decode_message(sent.raw)
            assert isinstance(message, p.CancelTurn)
            turn = message.key, message.invocation_id
            row = self._disk.turns.get(turn)
            if row is not None and row.status == "running":
                self._to_cancel[sent.nth] = turn, row
        elif sent.kind == "Append":
            self._appends.append(sent)
        elif sent.kind == "AnnounceRunner" and sent.sender in self._told:
            self._again.add(sent.nth)
        elif sent.kind in OF_RUNNERS and self._leads.get(sent.receiver, sent.sender) is not sent.sender:
            self._replaced[sent.kind, sent.nth] = sent.sender

    def check(self, sent: Sent, raw: bytes) -> None:
        """Look at the reply to a message."""
        missing: Sequence[str] = ()
        if sent.kind in PROMISING:
            missing = self._missing(sent, decode_message(sent.raw), decode_message(raw))
        elif sent.kind == CANCEL and sent.nth in self._to_cancel and isinstance(decode_message(raw), p.Ack):
            missing = self._still_open(*self._to_cancel[sent.nth])
        elif sent.kind == "AnnounceRunner":
            missing = self._out_of_term(sent, decode_message(raw))
        is_replaced = (sent.kind, sent.nth) in self._replaced and self._leads[sent.receiver] is not sent.sender
        if is_replaced and isinstance(decode_message(raw), LET_IN):
            missing = [*missing, "another one had its place"]
        if sent.kind in ("AbandonRuns", "ResumeTurn", "RetryTurn"):
            self._fence(sent, decode_message(sent.raw), decode_message(raw))
        self.broken += [f"{sent.kind} {sent.nth} of {sent.who}: {each} when the reply was sent" for each in missing]

    def note_end(self, process: SimProcess, *, leads: bool) -> None:
        """A process of a Runner ends since it was told that another one has its place."""
        if leads:
            self.broken.append(f"{process.name} leads, and was ended as one that was replaced")

    def end_fences(self) -> None:
        """A Session actor is lost, or all is over: the next one knows which attempt of a turn writes, not which of its runs."""
        stored = self._fenced.keys() & self._disk.events.keys()
        self.broken += [f"event {each} was stored, and {self._fenced[each]} had been given up before" for each in sorted(stored)]
        self._fenced.clear()

    def _fence(self, sent: Sent, message: p.Message, reply: p.Message) -> None:
        """Note what may not be stored any more, of all that was sent so far to this Session actor."""
        for each in self._appends if isinstance(reply, p.TurnProgress | p.TurnResumed) else ():
            append = decode_message(each.raw)
            assert isinstance(append, p.Append)
            if each.receiver is sent.receiver and _is_given_up(append.turn, message, reply):
                self._fenced |= {
                    found.id: each.who for raw in append.events if (found := decode_event(raw, 0)).id not in self._disk.events
                }

    def _out_of_term(self, sent: Sent, reply: p.Message) -> Sequence[str]:
        message, session, runner = decode_message(sent.raw), sent.receiver, sent.sender
        assert isinstance(message, p.AnnounceRunner)
        if session is None or runner is None:
            return ()
        if isinstance(reply, p.Ack):
            self._leads[session] = runner
            # What it has sent to announce itself with was not sent by one that was replaced.
            self._replaced = {each: sender for each, sender in self._replaced.items() if sender is not runner}
            before, self._terms[session] = self._terms[session], max(message.term, self._terms[session])
            return [f"the place was given in term {message.term} after {before}"] if message.term < before else ()
        if not isinstance(reply, p.NotLeader) or reply.term <= message.term:
            return ()
        self._told.add(runner)
        return [f"it was told of term {reply.term} before"] if sent.nth in self._again else ()

    def _missing(self, sent: Sent, message: p.Message, reply: p.Message) -> Sequence[str]:
        match message, reply:
            case p.Append(), p.Appended():
                stored = enumerate(message.events, start=reply.first_seq)
                notes = [] if message.outcome is None else self._open_turns(message.turn)
                return [*self._not_stored(StoredEvent(seq, raw) for seq, raw in stored), *notes]
            case p.OpenTurn(), p.TurnBegun():
                return self._not_stored([StoredEvent(reply.seq, message.event)])
            case p.AppendEventRequest(), p.Appended():
                return self._not_stored([StoredEvent(reply.first_seq, message.event)])
            case p.CloseTurn(), p.Ack():
                return self._open_turns(message.turn)
            case p.ResumeTurn() | RetryTurn(), p.TurnResumed():
                row = self._disk.turns.get((message.key, message.invocation_id))
                is_stored = row is not None and row.epoch >= reply.epoch
                return [] if is_stored else [f"epoch {reply.epoch} of {message.invocation_id} was not stored"]
            case _, p.News():
                return self._not_stored(event for turn in reply.turns for event in turn.events if event.seq)
            case _, p.Fetched() | p.TurnRead():
                return self._not_stored(reply.events)
        return []

    def _not_stored(self, events: Iterable[StoredEvent]) -> list[str]:
        return [
            f"event {event.seq} of {found.author} was not stored"
            for event in events
            if self._disk.events.get((found := decode_event(event.raw, event.seq)).id) != event.seq
        ]

    def _still_open(self, turn: TurnKey, before: TurnRow) -> list[str]:
        now = self._disk.turns.get(turn)
        # Its session may have been deleted with it, and an answer may have begun it again.
        is_open = now is not None and now.status == "running" and now.opened_seq == before.opened_seq
        return [f"the end of {before.invocation_id} was not stored"] if is_open and not self._has_failed() else []

    def _open_turns(self, turn: p.TurnRef) -> list[str]:
        row = self._disk.turns.get((turn.key, turn.invocation_id))
        has_ended = row is not None and (row.status != "running" or row.epoch > turn.epoch)
        return [] if has_ended else [f"the end of {turn.invocation_id} was not stored"]


def _is_given_up(turn: p.TurnRef, message: p.Message, reply: p.Message) -> bool:
    """True if what writes for a turn was given up by a message, to which this is the reply."""
    match message, reply:
        case p.AbandonRuns(), _:
            return turn.run in message.lost and turn == msgspec.structs.replace(message.turn, run=turn.run)
        case p.ResumeTurn() | RetryTurn(), p.TurnResumed():
            return (turn.key, turn.invocation_id) == (message.key, message.invocation_id) and turn.epoch < reply.epoch
    return False
