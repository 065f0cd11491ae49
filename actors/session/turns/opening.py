"""The turns of all sessions, as their keeper has them: in each session one at a time, the others in line (semantics.md 2).

A turn is open from the user's event on until its record says how it ended. Who writes for it names its epoch and its run, and is
refused when either was given up: so a turn never has two writers, however many processes believe that it is theirs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from actors.errors import (
    FencedError,
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
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.messages.topology import Topology
from actors.rules.capacity.sharding import holds
from actors.rules.checks import state as scopes
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

    async def open(self, message: p.OpenTurn) -> p.TurnOpened:
        """Store the user's event and let the turn run, once no other turn of the session does."""
        if message.auto_create and await self._book.find(message.key) is None:
            await self.catch_up(message.key)
            # Before there is a session that nobody wants.
            self._admission.first(message, *await self._book.shared_state(message.key))
        hot = await self._book.take_up(message.key, auto_create=message.auto_create)
        event = scan(message.event)
        if hot.turn is not None and hot.turn.stored.get(event.id) == hot.turn.row.opened_seq:
            # Asked again: the reply to the first time was lost, with the process that gave it or with the one that waited for it.
            opened_seq = hot.turn.row.opened_seq
            await self.follow(hot, message.invocation_id, message.subscriber, opened_seq)
            again = await self.take_up(p.ResumeTurn(key=message.key, invocation_id=message.invocation_id, runner=message.runner))
            return again if again.epoch else p.TurnOpened(attached=True, seq=opened_seq)
        if message.repeatable and (joined := await self._join(hot, message, event)) is not None:
            return joined
        if self._book.in_memory(message.key) is not hot:
            # It has left memory while the store was asked, which may take long; or it was deleted.
            return await self.open(message)
        has_waited = hot.is_taken
        if has_waited:
            if hot.turn is not None and hot.turn.runner != message.runner:
                return p.TurnOpened(lost=hot.busy_with())
            if message.config.on_concurrent_turn == "reject":
                raise SessionBusyError(message.key.session, hot.busy_with())
            interrupts = message.config.on_concurrent_turn == "interrupt"
            if interrupts and hot.turn is not None and hot.busy_with() != message.interrupting:
                return p.TurnOpened(interrupted=hot.busy_with())
            if not await hot.enqueue(Waiter(message.invocation_id, message.runner, interrupts=interrupts)):
                return p.TurnOpened(interrupted=hot.busy_with())
        hot.is_taken = True
        try:
            # While it waited, another request of the same id may have been before it.
            if has_waited and message.repeatable and (joined := await self._join(hot, message, event)) is not None:
                hot.start_next()
                return joined
            if await self._book.take_up(message.key) is not hot:
                # Deleted and made anew meanwhile.
                raise SessionNotFoundError(message.key.app, message.key.user, message.key.session)
            if self._book.is_shared:
                await self.catch_up(message.key)
            if message.answers:
                return await self._go_on(hot, message, event)
            row = TurnRow(
                invocation_id=message.invocation_id,
                status="running",
                epoch=1,
                first_seq=hot.head_seq + 1,
                opened_seq=hot.head_seq + 1,
            )
            return await self._begin(hot, message, event, OpenTurn(row, message.config, message.runner))
        except BaseException as error:
            told = str(error) or type(error).__name__
            never_ran = p.Failed(error_code=type(error).__name__, error_message=f"the turn could not begin: {told}")
            if isinstance(error, StoreUnavailableError) and hot.turn is not None:
                # It may have begun in the store.
                self._book.owe(hot.put_turn(_ended(hot.turn, "", never_ran)))
            hot.turn = None
            hot.start_next()
            self._followers.tell_end(message.key, message.invocation_id, never_ran)
            raise

    async def _join(self, hot: SessionLog, message: p.OpenTurn, event: EventScan) -> p.TurnOpened | None:
        """The reply to a turn that is there already, or None."""
        invocation_id = message.invocation_id
        after_seq = 0
        if message.answers:
            # The turn that asked is always there; it is joined only if it has heard this answer before.
            place = await self._book.place(message.key, event.id)
            if place is None:
                return None
            after_seq, invocation_id = place
        row = hot.runs(invocation_id)
        if row is None and not hot.waits(invocation_id):
            row = await self.row(hot, invocation_id)
            # The same turn may have got in line meanwhile: two drivers may ask for it at the same time.
            if row is None and not hot.waits(invocation_id):
                return None
        first_seq = row.first_seq if row is not None else hot.head_seq
        await self.follow(hot, invocation_id, message.subscriber, max(first_seq, after_seq))
        is_lost = hot.turn is not None and hot.runs(invocation_id) is not None and hot.turn.runner != message.runner
        agent = row.agent if row is not None else ""
        return p.TurnOpened(attached=True, seq=after_seq, agent=agent, lost=invocation_id if is_lost else "")

    async def _go_on(self, hot: SessionLog, message: p.OpenTurn, event: EventScan) -> p.TurnOpened:
        """Take up the turn whose questions the message answers."""
        # What was found when the message was checked may have been rewound while it waited in line.
        calls = await self._calls(message.key, message.answers)
        before = await self._book.turn(message.key, message.invocation_id)
        turn = OpenTurn.of(before or _unknown_turn(message.invocation_id, min(call.seq for call in calls)))
        await self._book.recall(hot.key, turn)
        turn.config = message.config
        turn.runner = message.runner
        turn.row = msgspec.structs.replace(
            turn.row, status="running", epoch=turn.row.epoch + 1, opened_seq=hot.head_seq + 1, agent="", outcome=b""
        )
        opened = await self._begin(hot, message, event, turn)
        so_far = turn.so_far()
        if before is not None and before.status in _OVER:
            # Who asked hears the answer, but the workflow around it has ended, or failed, without it.
            so_far = msgspec.structs.replace(so_far, callers=())
        return msgspec.structs.replace(opened, so_far=so_far)

    async def _begin(self, hot: SessionLog, message: p.OpenTurn, event: EventScan, turn: OpenTurn) -> p.TurnOpened:
        temp = scopes.only_temp(message.state_delta)
        self._admission.event(hot, message.event, event)
        self._admission.temp(turn.temp, temp)
        hot.turn = turn
        turn.temp.update(temp)
        await self.add(hot, [(message.event, event)], [hot.put_turn(turn.record())])
        # Agents speak only when this has been answered, so the caller misses nothing; and hears nothing of a turn that never was.
        self._followers.add(message.subscriber, message.key, message.invocation_id, turn.row.opened_seq)
        self._counts["turns"] += 1
        hot.reject_interrupter()
        return p.TurnOpened(
            epoch=turn.row.epoch,
            seq=turn.row.opened_seq,
            generation=hot.generation,
            authors=self._deciding(hot),
            state=encode(hot.merged_state()),
        )

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
            for waiter in list(hot.queue) if holds(message.share, hot.key) else ():
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

    async def take_up(self, message: p.ResumeTurn) -> p.TurnOpened:
        """Let another Runner go on with an open turn; from now on the one before can write nothing more for it."""
        hot = await self._book.find(message.key)
        turn = hot.turn if hot is not None else None
        if hot is None or turn is None or turn.row.invocation_id != message.invocation_id or turn.is_ending:
            return p.TurnOpened()
        turn.runner = message.runner
        if message.epoch == turn.row.epoch:
            return p.TurnOpened(epoch=turn.row.epoch, attached=True)
        # Whoever takes it up at the same moment gets an epoch of his own, and fences off this one.
        epoch = turn.row.epoch + 1
        turn.row = msgspec.structs.replace(turn.row, epoch=epoch)
        turn.lost.clear()
        await self._book.write(hot, [hot.put_turn(turn.record())])
        opened_seq = turn.row.opened_seq
        event = (await self._book.events(hot.key, after_seq=opened_seq - 1, limit=1))[0]
        answered = await self._calls(hot.key, scan(event.raw).answered())
        return p.TurnOpened(
            taken_up=True,
            epoch=epoch,
            seq=opened_seq,
            event=event.raw,
            config=turn.config,
            caller=answered[0].author if answered else "",
            generation=hot.generation,
            authors=deciding(self._topology, (each for each in await self._book.authors(hot.key, opened_seq) if each != USER)),
            so_far=turn.so_far(),
        )

    async def pick_up(self, message: p.AbandonRuns) -> p.TurnProgress:
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
