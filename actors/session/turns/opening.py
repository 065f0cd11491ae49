"""The turns of all sessions, as their keeper has them: in each session one at a time, the others in line (semantics.md 2).

A turn is open from the user's event on until its record says how it ended. Who writes for it names its epoch and its run, and is
refused when either was given up: so a turn never has two writers, however many processes believe that it is theirs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from actors.errors import (
    FencedError,
    InvocationNotFoundError,
    SessionBusyError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    TurnCancelledError,
    UnknownFunctionCallError,
)
from actors.interfaces.records import CallRow, TurnRow, Write
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.content import Content, FunctionResponse, Part
from actors.messages.event import USER, Event, new_event_id, now_s
from actors.messages.protocol.turns import InterruptFirst, ResumeFirst
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.topology import Topology
from actors.rules.capacity.sharding import holds
from actors.rules.checks import state as scopes
from actors.rules.routing.opening import (
    Begin,
    Free,
    Join,
    Kept,
    Open,
    OpeningFacts,
    Refuse,
    Resume,
    SessionUse,
    Taken,
    Wait,
    decide,
)
from actors.rules.routing.selection import deciding
from actors.session.admission import Admission
from actors.session.log.event_scan import EventScan, new_event, scan
from actors.session.log.logs import SessionLogs
from actors.session.log.open_turn import OpenTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.turn_queue import Waiter
from actors.session.subscribers.subscriptions import Subscriptions

logger = logging.getLogger(__name__)

_STATUS: dict[type[p.Message], str] = {
    p.Finished: "finished",
    p.Transfer: "finished",
    p.Paused: "paused",
    p.Failed: "failed",
    p.Cancelled: "cancelled",
}

_OVER = frozenset({"finished", "failed", "cancelled"})
"""States of a turn in which nothing of it waits."""


class Turns:
    """Opens turns, takes in what is written for them, and closes them.

    Args:
        book: the logs.
        followers: who is told.
        admission: what may enter a log.
        counts: the actor's figures.
        share: the sessions that are kept here.
    """

    def __init__(
        self,
        book: SessionLogs,
        followers: Subscriptions,
        admission: Admission,
        counts: Counter[str],
        topology: Topology,
        share: Shard = ONLY_SHARD,
    ) -> None:
        self._share = share
        self._book = book
        self._followers = followers
        self._admission = admission
        self._counts = counts
        self._topology = topology

    # ------------------------------------------------------------------------------------------------- opening
    async def find(self, message: p.FindTurn) -> p.TurnFound:
        """Tell who could take a message; nothing is stored, not even a session that would be created."""
        key = message.key
        hot = await self._book.find(key)
        if hot is None:
            if not message.auto_create:
                raise SessionNotFoundError(key.app, key.user, key.session)
            if message.call_ids:
                raise UnknownFunctionCallError(message.call_ids[0], key.session)
            return p.TurnFound(authors=())
        calls = await self._calls(key, message.call_ids)
        if not calls:
            row = await self.row(hot, message.invocation_id) if message.invocation_id else None
            is_there = row is not None or hot.waits(message.invocation_id)
            return p.TurnFound(authors=self._deciding(hot), is_there=is_there, agent=row.agent if row is not None else "")
        return p.TurnFound(authors=self._deciding(hot), caller=calls[0].author, invocation_id=calls[0].invocation_id)

    async def open(self, message: p.OpenTurn) -> p.OpenTurnReply:
        """Store the user's event and let the turn run, once no other turn of the session does.

        Raises:
            SessionNotFoundError, SessionBusyError, UnknownFunctionCallError, TurnCancelledError, RequestError, StoreError: it
                does not run, and nothing is stored.
        """
        request = _Request(message, scan(message.event), await self._log_of(message))
        try:
            return await self._opened(request)
        except BaseException as error:
            if request.holds_session:
                self._let_go(request, error)
            raise

    async def _log_of(self, message: p.OpenTurn) -> SessionLog:
        """The log of the session, which is created if that is wanted."""
        if message.auto_create and await self._book.find(message.key) is None:
            await self.catch_up(message.key)
            # Check first, so that a refused message leaves no empty session behind.
            self._admission.first(message, *await self._book.shared_state(message.key))
        return await self._book.take_up(message.key, auto_create=message.auto_create)

    async def _opened(self, request: _Request) -> p.OpenTurnReply:
        """Do what `decide` says, again after each wait."""
        message = request.message
        while True:
            known = await self._known(request) if message.repeatable else None
            log = request.log
            if not request.holds_session and self._book.in_memory(message.key) is not log:
                # It was evicted or deleted while the store was asked, which may take long.
                request.log = await self._log_of(message)
                continue
            match decide(request.facts(known)):
                case Begin():
                    request.holds_session = log.is_taken = True
                    return await self._begin(request)
                case Resume():
                    return await self._resume(request)
                case Join(is_lost):
                    assert known is not None
                    return await self._join(request, known, is_lost)
                case Wait(at_head):
                    waiter = Waiter(message.invocation_id, message.runner, interrupts=at_head)
                    request.holds_session = await log.enqueue(waiter)
                case Refuse(open_turn):
                    raise SessionBusyError(message.key.session, open_turn)
                case InterruptFirst() | ResumeFirst() as reply:
                    return reply

    async def _known(self, request: _Request) -> _KnownTurn | None:
        """The turn asked for, if it is there already."""
        log, message = request.log, request.message
        invocation_id = message.invocation_id
        answered_seq = 0
        if message.answers:
            # The turn that asked is always there; it is joined only if it was given this answer before.
            position = await self._book.place(message.key, request.event.id)
            if position is None:
                return None
            answered_seq, invocation_id = position
        row = log.runs(invocation_id)
        if row is None and not log.waits(invocation_id):
            row = await self.row(log, invocation_id)
            # It may have been queued meanwhile: two drivers may ask for the same turn at the same time.
            if row is None and not log.waits(invocation_id):
                return None
        return _KnownTurn(invocation_id, row, answered_seq)

    async def _join(self, request: _Request, known: _KnownTurn, is_lost: bool) -> p.TurnJoined:
        log, row = request.log, known.row
        first_seq = row.first_seq if row is not None else log.head_seq
        await self.follow(log, known.invocation_id, request.message.subscriber, max(first_seq, known.answered_seq))
        if request.holds_session:
            request.holds_session = False
            log.start_next()
        return p.TurnJoined(seq=known.answered_seq, agent=row.agent if row is not None else "", is_lost=is_lost)

    async def _resume(self, request: _Request) -> p.TurnResumed | p.TurnJoined:
        """The reply to this very request was lost, with the process that gave it or with the Runner that waited for it."""
        message, log = request.message, request.log
        assert log.turn is not None
        opened_seq = log.turn.row.opened_seq
        await self.follow(log, message.invocation_id, message.subscriber, opened_seq)
        resume = p.ResumeTurn(key=message.key, invocation_id=message.invocation_id, runner=message.runner)
        reply = await self.resume(resume)
        return reply if isinstance(reply, p.TurnResumed) else p.TurnJoined(seq=opened_seq)

    async def _begin(self, request: _Request) -> p.TurnBegun:
        message, log = request.message, request.log
        if await self._book.take_up(message.key) is not log:
            # Deleted and created again while the request waited.
            raise SessionNotFoundError(message.key.app, message.key.user, message.key.session)
        if self._book.is_shared:
            await self.catch_up(message.key)
        if message.answers:
            return await self._continue_paused(request)
        first_seq = log.head_seq + 1
        row = TurnRow(invocation_id=message.invocation_id, status="running", epoch=1, first_seq=first_seq, opened_seq=first_seq)
        return await self._store(request, OpenTurn(row, message.config, message.runner))

    async def _continue_paused(self, request: _Request) -> p.TurnBegun:
        """Continue the turn whose calls the message answers."""
        message, log = request.message, request.log
        # What was found when the message was checked may have been rewound while it waited.
        calls = await self._calls(message.key, message.answers)
        before = await self._book.turn(message.key, message.invocation_id)
        turn = OpenTurn.of(before or _unknown_turn(message.invocation_id, min(call.seq for call in calls)))
        await self._book.recall(log.key, turn)
        turn.config = message.config
        turn.runner = message.runner
        turn.row = msgspec.structs.replace(
            turn.row, status="running", epoch=turn.row.epoch + 1, opened_seq=log.head_seq + 1, agent="", outcome=b""
        )
        begun = await self._store(request, turn)
        progress = turn.so_far()
        if before is not None and before.status in _OVER:
            # The agent that asked hears the answer; but the workflow around it has ended, or failed, without it.
            progress = msgspec.structs.replace(progress, callers=())
        return msgspec.structs.replace(begun, progress=progress)

    async def _store(self, request: _Request, turn: OpenTurn) -> p.TurnBegun:
        """Store the user's event and the turn's record; then the turn is open."""
        message, log = request.message, request.log
        temp = scopes.only_temp(message.state_delta)
        self._admission.event(log, message.event, request.event)
        self._admission.temp(turn.temp, temp)
        log.turn = turn
        turn.temp.update(temp)
        await self.add(log, [(message.event, request.event)], [log.put_turn(turn.record())])
        # Agents speak only after this reply, so the subscriber misses nothing; nor does it hear of a turn that was not stored.
        self._followers.add(message.subscriber, message.key, message.invocation_id, turn.row.opened_seq)
        self._counts["turns"] += 1
        log.reject_interrupter()
        return p.TurnBegun(
            epoch=turn.row.epoch,
            seq=turn.row.opened_seq,
            generation=log.generation,
            authors=self._deciding(log),
            state=encode(log.merged_state()),
        )

    def _let_go(self, request: _Request, error: BaseException) -> None:
        """The turn could not begin: tell its subscribers, and let the next one begin."""
        message, log = request.message, request.log
        text = str(error) or type(error).__name__
        never_ran = p.Failed(error_code=type(error).__name__, error_message=f"the turn could not begin: {text}")
        if isinstance(error, StoreUnavailableError) and log.turn is not None:
            # It may have begun in the store.
            self._book.owe(log.put_turn(_ended(log.turn, "", never_ran)))
        log.turn = None
        log.start_next()
        self._followers.tell_end(message.key, message.invocation_id, never_ran)

    def _deciding(self, hot: SessionLog) -> tuple[str, ...]:
        return deciding(self._topology, hot.authors())

    async def catch_up(self, key: SessionKey) -> None:
        """Read the app's and the user's state anew, if there are other Session actors that may have changed it."""
        if self._book.is_shared:
            await self._book.shared_state(key, again=True)
            self._admission.forget_shared(key)

    # ------------------------------------------------------------------------------------------------- after a loss
    async def list_open(self, message: p.ListOpenTurns) -> p.OpenTurnsReply:
        """Give up what a Runner's predecessor had in line, and tell which turns it has left open."""
        for hot in self._book.all_in_memory():
            if not holds(message.share, hot.key):
                continue
            if hot.turn is not None and hot.turn.runner != message.runner:
                # Lost until it is resumed, which may fail; then whoever subscribes to it learns so.
                hot.turn.runner = ""
            for waiter in list(hot.queue):
                if waiter.runner != message.runner:
                    # Nobody hears this: who asked is gone, and its driver asks again.
                    hot.dismiss(waiter, TurnCancelledError(waiter.invocation_id))
        left = []
        for key, row in await self._book.running(message.app):
            if not holds(message.share, key) or not holds(self._share, key):
                continue
            known = self._book.in_memory(key)
            if known is None or known.turn is None or known.turn.runner != message.runner:
                left.append((key, row.invocation_id))
        return p.OpenTurnsReply(turns=left)

    async def resume(self, message: p.ResumeTurn) -> p.ResumeTurnReply:
        """Let another Runner go on with an open turn; from now on the one before can write nothing more for it."""
        hot = await self._book.find(message.key)
        turn = hot.turn if hot is not None else None
        if hot is None or turn is None or turn.row.invocation_id != message.invocation_id or turn.is_ending:
            return p.NothingToResume()
        turn.runner = message.runner
        if message.epoch == turn.row.epoch:
            return p.TurnKept()
        # A concurrent request gets an epoch of its own, and fences off this one.
        epoch = turn.row.epoch + 1
        turn.row = msgspec.structs.replace(turn.row, epoch=epoch)
        turn.lost.clear()
        await self._book.write(hot, [hot.put_turn(turn.record())])
        opened_seq = turn.row.opened_seq
        event = (await self._book.events(hot.key, after_seq=opened_seq - 1, limit=1))[0]
        answered = await self._calls(hot.key, scan(event.raw).answered())
        return p.TurnResumed(
            epoch=epoch,
            seq=opened_seq,
            event=event.raw,
            config=turn.config,
            caller=answered[0].author if answered else "",
            generation=hot.generation,
            authors=deciding(self._topology, (each for each in await self._book.authors(hot.key, opened_seq) if each != USER)),
            progress=turn.so_far(),
        )

    async def abandon_runs(self, message: p.AbandonRuns) -> p.TurnProgress:
        """Give up runs of a turn, and tell how far the turn is."""
        _, turn = await self.current(message.turn)
        turn.lost.update(message.lost)
        # What they have sent already may be on its way to the disk.
        await self._book.flush()
        _, turn = await self.current(message.turn)
        return turn.so_far()

    # ------------------------------------------------------------------------------------------------- while it runs
    async def append(self, message: p.Append) -> p.Appended:
        """Store events of the running turn. What is stored already, because it was sent again, is not stored twice."""
        events = [(raw, scan(raw)) for raw in message.events]
        try:
            hot, turn = await self.current(message.turn)
            if events and events[0][1].id in turn.stored:
                # It may be on its way to the disk still, and may not arrive there.
                await self._book.flush()
                hot, turn = await self.current(message.turn)
                if events[0][1].id in turn.stored:
                    return p.Appended(first_seq=turn.stored[events[0][1].id])
        except FencedError:
            # The turn may have ended with these very events, and only the reply was lost.
            place = await self._book.place(message.turn.key, events[0][1].id) if message.outcome is not None else None
            if place is None:
                raise
            return p.Appended(first_seq=place[0])
        writes: list[Write] = []
        state_seq = hot.state_seq
        for raw, event in events:
            self._admission.event(hot, raw, event)
        if message.temp:
            self._admission.temp(turn.temp, message.temp)
            turn.temp.update(message.temp)
            hot.state_seq = hot.head_seq + len(events)
            writes.append(hot.put_turn(turn.record()))
        if message.outcome is None:
            return p.Appended(first_seq=await self.add(hot, events, writes), state_seq=state_seq)
        turn.is_ending = True
        try:
            ended = hot.put_turn(_ended(turn, message.selected, message.outcome))
            return p.Appended(first_seq=await self.add(hot, events, [*writes, ended], message.outcome), state_seq=state_seq)
        except Exception:
            turn.is_ending = False
            raise

    async def tell_partial(self, message: p.TellPartial) -> p.Ack:
        """Pass pieces of an answer on."""
        await self.current(message.turn)
        self._counts["partials"] += len(message.events)
        pieces = [p.StoredEvent(0, raw) for raw in message.events]
        self._followers.tell(message.turn.key, message.turn.invocation_id, pieces)
        return p.Ack()

    async def add(
        self,
        hot: SessionLog,
        events: Sequence[tuple[bytes, EventScan]],
        writes: Sequence[Write],
        outcome: p.AnyOutcome | None = None,
    ) -> int:
        """Store events with what has to be written beside them, and tell the turn's followers; with `outcome` it ends there."""

        def show(stored: Sequence[p.StoredEvent]) -> None:
            for place, (_, event) in zip(stored, events, strict=True):
                if event.author != USER:
                    self._followers.tell(hot.key, event.invocation_id, [place])
            if outcome is not None:
                # In the same step as the last event, so that both travel together; and whoever asks for the turn from now on
                # is told of its end by the store.
                self._followers.tell_end(hot.key, events[-1][1].invocation_id, outcome)
                hot.turn = None
                hot.start_next()

        self._counts["events"] += len(events)
        return await self._book.add(hot, events, writes, show)

    # ------------------------------------------------------------------------------------------------- ending
    async def close(self, message: p.CloseTurn) -> p.Ack:
        """Write how the turn ended, tell its followers, and let the next one run."""
        with suppress(StoreError):
            await self.current(message.turn)
        hot, turn = self._running(message.turn)
        try:
            hot, turn = await self.current(message.turn)
            if isinstance(message.outcome, p.Cancelled):
                await self._answer_open_calls(hot, turn)
        except StoreError as error:
            # The turn has to end all the same, or the session would be busy for ever.
            logger.error("turn %s ends without what it leaves open being settled: %s", turn.row.invocation_id, error)
            with suppress(StoreError):
                await self.current(message.turn)
        turn.is_ending = True
        ended = hot.put_turn(_ended(turn, message.agent, message.outcome))
        try:
            await self._book.write(hot, [ended])
        except StoreError:
            self._book.owe(ended)
            raise
        finally:
            # Also when the record could not be written: whoever waits for the turn has to be told, and the next one let in.
            self._followers.tell_end(hot.key, turn.row.invocation_id, message.outcome)
            hot.turn = None
            hot.start_next()
        return p.Ack()

    async def _answer_open_calls(self, hot: SessionLog, turn: OpenTurn) -> None:
        """Calls that a cancelled turn leaves open get an answer, so that no model ever sees them without one."""
        by_author: dict[tuple[str, str | None], list[Part]] = {}
        for call_id, call in turn.open_calls.items():
            response = FunctionResponse(id=call_id, name=call.name, response={"error": "cancelled"})
            by_author.setdefault((call.author, call.branch), []).append(Part(function_response=response))
        for (author, branch), parts in by_author.items():
            content = Content(role=USER, parts=parts)
            await self.add(hot, [made_here(turn.row.invocation_id, author, branch=branch, content=content)], [])

    async def cancel(self, message: p.CancelTurn) -> p.Ack:
        """Take a turn out of the line, or seal one that is open and that nobody runs, or one that is paused."""
        hot = await self._book.find(message.key)
        if hot is None:
            return p.Ack()
        waiting = [waiter for waiter in hot.queue if waiter.invocation_id == message.invocation_id]
        for waiter in waiting:
            hot.dismiss(waiter, TurnCancelledError(message.invocation_id))
            self._followers.tell_end(message.key, message.invocation_id, p.Cancelled())
        if hot.turn is not None and hot.runs(message.invocation_id) is not None:
            if not hot.turn.runner:
                turn = p.TurnRef(message.key, message.invocation_id, hot.turn.row.epoch)
                await self.close(p.CloseTurn(turn=turn, agent=hot.turn.row.agent, outcome=p.Cancelled()))
        elif not waiting:
            await self._cancel_paused(hot, message.invocation_id)
        return p.Ack()

    async def _cancel_paused(self, hot: SessionLog, invocation_id: str) -> None:
        """Seal a turn that waits for answers, if that is what it does. Raises SessionBusyError, StoreError."""
        row = await self._book.turn(hot.key, invocation_id)
        if row is None or row.status != "paused":
            return
        hot = await self._book.take_up(hot.key)
        if hot.is_taken:
            if hot.busy_with() not in ("", invocation_id):
                raise SessionBusyError(hot.key.session, hot.busy_with())
            # It has just been answered, and begins again: whoever cancels it finds it running.
            return
        hot.is_taken = True
        try:
            turn = OpenTurn.of(row)
            await self._book.recall(hot.key, turn)
            await self._answer_open_calls(hot, turn)
            await self._book.write(hot, [hot.put_turn(_ended(turn, row.agent, p.Cancelled()))])
        finally:
            hot.start_next()

    # ------------------------------------------------------------------------------------------------- followers
    async def subscribe(self, message: p.Subscribe) -> p.Subscribed:
        """Tell a subscriber of a turn's events after a position, those in the log first, and say where the turn is.

        Raises InvocationNotFoundError, SessionNotFoundError, StoreError.
        """
        key, invocation_id = message.key, message.invocation_id
        log, row = await self._find(key, invocation_id)
        if row is None and not log.waits(invocation_id):
            raise InvocationNotFoundError(invocation_id, key.session)
        first_seq = row.first_seq if row is not None else log.head_seq
        await self.follow(log, invocation_id, message.subscriber, max(first_seq, message.after_seq))
        return p.Subscribed(status=self._status(log, invocation_id))

    async def _find(self, key: SessionKey, invocation_id: str) -> tuple[SessionLog, TurnRow | None]:
        """The log, and the record of a turn as of the same moment: see `row`."""
        while True:
            log = await self._book.take_up(key)
            row = await self.row(log, invocation_id)
            if self._book.in_memory(key) is log:
                return log, row
            # It was evicted while the store was asked.

    def _status(self, log: SessionLog, invocation_id: str) -> p.TurnStatus:
        if log.turn is not None and log.runs(invocation_id) is not None:
            return "running" if log.turn.runner else "lost"
        return "waiting" if log.waits(invocation_id) else "ended"

    async def follow(self, hot: SessionLog, invocation_id: str, subscriber: str, after_seq: int) -> None:
        """Tell a subscriber of a turn's events behind a place, those in the log first."""
        if not subscriber or self._followers.follows(subscriber, hot.key, invocation_id):
            return
        if hot.waits(invocation_id) or hot.runs(invocation_id) is not None:
            self._followers.add(subscriber, hot.key, invocation_id, after_seq, hot.settled_seq)
            return
        row = await self._book.turn(hot.key, invocation_id)
        if row is not None and row.outcome:
            outcome = p.decode_outcome(row.outcome)
            self._followers.add_late(subscriber, hot.key, invocation_id, after_seq, hot.settled_seq, outcome)

    # ------------------------------------------------------------------------------------------------- looking up
    async def current(self, turn: p.TurnRef) -> tuple[SessionLog, OpenTurn]:
        """The session of a turn that runs with that epoch. Raises FencedError when it does not."""
        hot = self._book.in_memory(turn.key)
        if hot is None or hot.is_stale:
            await self._book.find(turn.key)
        return self._running(turn)

    def _running(self, turn: p.TurnRef) -> tuple[SessionLog, OpenTurn]:
        """The same, as memory has it."""
        hot = self._book.in_memory(turn.key)
        if hot is None or hot.turn is None or not hot.is_current(turn):
            raise FencedError(turn.invocation_id, turn.epoch)
        return hot, hot.turn

    async def row(self, hot: SessionLog, invocation_id: str) -> TurnRow | None:
        """The record of a turn that runs or has ended; None for one that waits in line, or that is not known."""
        row = hot.runs(invocation_id) or await self._book.turn(hot.key, invocation_id)
        # It may have begun meanwhile.
        return hot.runs(invocation_id) or row

    async def _calls(self, key: SessionKey, call_ids: Sequence[str]) -> list[CallRow]:
        """Who made these calls. Raises UnknownFunctionCallError for one that nobody made."""
        calls = []
        for call_id in call_ids:
            found = await self._book.call(key, call_id)
            if found is None:
                raise UnknownFunctionCallError(call_id, key.session)
            calls.append(found)
        return calls


class _KnownTurn(NamedTuple):
    """A turn that was asked for and is there already.

    Attributes:
        row: its record; None while it waits in the queue.
        answered_seq: the position of the user's event, if the request answers calls; else 0.
    """

    invocation_id: str
    row: TurnRow | None
    answered_seq: int


@dataclass(slots=True)
class _Request:
    """A request to open a turn, on its way.

    Attributes:
        event: of `message.event`.
        log: the session.
        holds_session: the session is taken for this request, which has to let the next one begin when it fails.
    """

    message: p.OpenTurn
    event: EventScan
    log: SessionLog
    holds_session: bool = False

    def facts(self, known: _KnownTurn | None) -> OpeningFacts:
        """What decides about the request."""
        return OpeningFacts(
            session=self._session_use(),
            known_turn=known.invocation_id if known is not None else "",
            on_concurrent_turn=self.message.config.on_concurrent_turn,
            interrupting=self.message.interrupting,
        )

    def _session_use(self) -> SessionUse:
        turn = self.log.turn
        if turn is not None:
            return Open(
                turn.row.invocation_id,
                is_live=turn.runner == self.message.runner,
                began_with_event=turn.stored.get(self.event.id) == turn.row.opened_seq,
            )
        if self.holds_session:
            return Kept()
        return Taken() if self.log.is_taken else Free()


def _unknown_turn(invocation_id: str, first_seq: int) -> TurnRow:
    """The record of a turn that has none, such as one of an imported conversation."""
    return TurnRow(invocation_id=invocation_id, status="", epoch=0, first_seq=first_seq, opened_seq=first_seq)


def _ended(turn: OpenTurn, agent: str, outcome: p.AnyOutcome) -> TurnRow:
    """The record of a turn that has ended. What it carries goes, unless it is only paused."""
    status = _STATUS[type(outcome)]
    row = turn.record()
    return msgspec.structs.replace(
        row, status=status, agent=agent, outcome=encode(outcome), temp=row.temp if status == "paused" else b""
    )


def made_here(invocation_id: str, author: str, **said: Any) -> tuple[bytes, EventScan]:
    """An event that the Session actor itself makes."""
    return new_event(Event(id=new_event_id(), invocation_id=invocation_id, author=author, timestamp=now_s(), **said))
