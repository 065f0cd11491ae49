"""Opening turns: one at a time in each session, the others wait in a queue (semantics.md section 2).

What happens to a request is decided by a table, `actors.rules.routing.opening`; here are the facts for it, and what it decides is
done. A turn is open from the user's event on until its record says how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from actors.actor import KeyedLocks, reply_early
from actors.errors import (
    RepeatMismatchError,
    RequestError,
    SessionBusyError,
    SessionNotFoundError,
    StoreConflictError,
    StoreError,
    TurnError,
    TurnStateError,
    UnknownFunctionCallError,
)
from actors.interfaces.stores import TurnRow, Write
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import decode_event, now_s
from actors.messages.graph import node_at
from actors.messages.session import SessionKey
from actors.rules.checks.state import only_temp
from actors.rules.failures import failure
from actors.rules.routing.opening import (
    Begin,
    Decision,
    Free,
    Join,
    Leave,
    Open,
    OpeningFacts,
    Refuse,
    Resume,
    SessionUse,
    Taken,
    Wait,
    decide,
)
from actors.rules.routing.pending import WaitingTask, as_answer, is_taken
from actors.session.log.event_scan import EventScan, new_event, scan
from actors.session.log.open_turn import OVER, SessionTurn
from actors.session.log.session_log import SessionLog, Waiter
from actors.session.service import SessionParts
from actors.session.turns.lookup import KnownTurn, TurnLookup, differs, unknown_turn
from actors.session.turns.recovery import TurnRecovery


class PendingOpen:
    """A request to open a turn, on its way.

    Attributes:
        has_waited: it was in the queue, where subscribers may have found the turn.
        known_seq: the log up to here was settled when the request came: see `rules.routing.pending`.
        holds_session: the session is taken for this request, which has to let the next one begin when it fails.
        before: the record of the turn that it continues with an answer, as it was before.
    """

    log: SessionLog
    has_waited = holds_session = False
    known_seq: int | None = None
    before: TurnRow | None = None

    def __init__(self, message: p.OpenTurn, event: EventScan) -> None:
        self.message = message
        self.event = event

    def answer(self, task: WaitingTask, *, is_delegate: bool) -> None:
        """Have `message` and `event` be the answer to a task: see `as_answer`."""
        raw, self.event = new_event(as_answer(decode_event(self.message.event, 0), task, is_delegate=is_delegate))
        self.message = msgspec.structs.replace(self.message, event=raw, invocation_id=task.invocation_id)

    @property
    def steers(self) -> bool:
        """True for a message that may be given to the turn that runs."""
        message = self.message
        is_said = not message.answers and message.due is None and self.event.flow is None
        return message.config.on_concurrent_turn == "steer" and is_said

    def facts(self, known: KnownTurn | None) -> OpeningFacts:
        """The facts that decide about the request."""
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
                # One whose end is being stored cannot be resumed, and needs not: what waits for it begins then.
                is_live=turn.is_ending or turn.runner == self.message.runner,
                began_with_event=turn.stored.get(self.event.id) == turn.row.opened_seq,
                # Messages that come while it is being opened wait until it is, and are given to it in their order.
                takes_message=self.steers and not self.log.is_opening and self.log.takes(self.event.id),
            )
        return Taken() if self.log.queue.is_taken and not self.holds_session else Free()


def check_answers(request: PendingOpen, turn: SessionTurn) -> None:
    """Check that the calls take the answers of the message, now that no other answer comes before it. Raises TurnStateError."""
    message = request.message
    is_paused = turn.row.status == "paused"
    for call_id in message.answers:
        facts = turn.calls.facts_of(call_id)
        call = replace(facts, is_waiting=facts.is_waiting and is_paused)
        if not is_taken(call, only_waiting=message.only_waiting, known_seq=request.known_seq or 0):
            why = "it has been answered" if call.answered_seq else "its turn does not wait for it"
            waiting = ", ".join(repr(each) for each in turn.calls.waiting if is_paused) or "none"
            raise TurnStateError(
                f"call {call_id!r} waits for no answer in session {message.key.session!r}: {why}. Calls that wait: {waiting}"
            )


class TurnOpener:
    """Answers OpenTurn."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup, recovery: TurnRecovery) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._subscriptions = parts.subscriptions
        self._versions = parts.versions
        self._admission = parts.admission
        self._lookup = lookup
        self._recovery = recovery
        self._in_order: KeyedLocks[SessionKey] = KeyedLocks()

    async def open_turn(self, message: p.OpenTurn) -> p.OpenTurnReply:
        """Store the user's event and let the turn run, as soon as no other turn of the session does.

        Raises:
            SessionNotFoundError, SessionBusyError, UnknownFunctionCallError, TurnStateError: the turn cannot begin.
            RepeatMismatchError: it is there already, and began with another request.
            TurnCancelledError: it was cancelled while it waited in the queue.
            StoreError: it could not be stored.
        """
        request = PendingOpen(message, scan(message.event))
        try:
            return await self._opened(request)
        except BaseException as error:
            if request.holds_session:
                self._let_go(request, error)
            raise
        finally:
            if request.has_waited:
                self._tell_if_dropped(request.log, message.invocation_id)

    async def _log_of(self, message: p.OpenTurn) -> SessionLog:
        """The log of the session; if that is wanted, also of one that the message creates."""
        if not message.auto_create:
            return await self._logs.load(message.key)
        log = await self._logs.find_or_new(message.key)
        if log.creation is not None:
            self._admission.first(message, log.app_state, log.user_state)
            if message.answers:
                raise UnknownFunctionCallError(message.answers[0], message.key.session)
        return log

    async def _opened(self, request: PendingOpen) -> p.OpenTurnReply:
        """Do what `decide` says, and ask it again after each wait."""
        message = request.message
        while True:
            # From here to the session's queue nothing is awaited, so requests enter it in the order in which they came.
            decision, known = await self._decided(request)
            log = request.log
            if request.known_seq is None:
                request.known_seq = log.turn.row.opened_seq - 1 if log.turn is not None else log.head_seq
            refusal = self._parts.runners.refusal(message.runner, message.term)
            if refusal is not None:
                self._give_back(request)
                return refusal
            match decision:
                case Begin():
                    request.holds_session = log.queue.is_taken = True
                    return await self._begin(request)
                case Resume():
                    return await self._resume(request)
                case Join(is_lost):
                    assert known is not None
                    if known.is_other:
                        self._give_back(request)
                        raise RepeatMismatchError(known.invocation_id, message.key.session)
                    if (joined := await self._join(request, known, is_lost)) is not None:
                        return joined
                case Wait(at_head):
                    waiter = Waiter(message, request.event.id, interrupts=at_head, steers=request.steers)
                    request.has_waited = True
                    reply_early(p.TurnInLine())
                    request.holds_session = await log.queue.enqueue(waiter)
                case Leave():
                    if (left := await self._leave(request)) is not None:
                        return left
                case Refuse(open_turn):
                    raise SessionBusyError(message.key.session, open_turn)
                case p.CancelRequired() | p.ResumeRequired() as reply:
                    return reply

    async def _refusal(self, message: p.OpenTurn) -> RequestError | TurnError | None:
        """The first reason of a feature why the turn may not begin, if it is due."""
        if message.due is not None:
            for refusal in self._parts.due_refusals:
                if (reason := await refusal(message, message.due)) is not None:
                    return reason
        return None

    async def _decided(self, request: PendingOpen) -> tuple[Decision, KnownTurn | None]:
        """Decide, and find the turn asked for, if it is there already. Requests of a session are decided one by one."""
        if request.holds_session:
            # Those in line may wait for a deletion, and that for the turn of this request.
            return await self._decision(request, await self._refusal(request.message))
        message = request.message
        async with self._in_order.locked(message.key):
            while True:
                refusal = await self._refusal(message)
                request.log = await self._log_of(message)
                decided = await self._decision(request, refusal)
                if request.log.creation is None and self._logs.in_memory(message.key) is not request.log:
                    # It was evicted or deleted while the store was asked, which may take long.
                    continue
                if (held := self._logs.held(message.key)) is not None:
                    # It is being removed: the turn begins it anew afterwards.
                    await held
                    continue
                return decided

    async def _decision(
        self, request: PendingOpen, refusal: RequestError | TurnError | None
    ) -> tuple[Decision, KnownTurn | None]:
        message = request.message
        # A message that was left for a turn may have been read since.
        may_be_there = message.repeatable or message.config.on_concurrent_turn == "steer"
        known = await self._known_turn(request) if may_be_there else None
        if refusal is not None and known is None:
            raise refusal
        return decide(request.facts(known)), known

    async def _known_turn(self, request: PendingOpen) -> KnownTurn | None:
        """The turn asked for, if it is there already."""
        log, message = request.log, request.message
        invocation_id = message.invocation_id
        answer_seq = 0
        if message.answers or message.may_answer_task or message.config.on_concurrent_turn == "steer":
            # Another turn than its own may have the message. One that is answered is always there; it is joined only if its log
            # has this very answer.
            # A new session has none, and is created before anything is awaited.
            position = await self._reader.position(message.key, request.event.id) if log.head_seq else None
            if position is not None and (message.answers or position[1] != invocation_id):
                answer_seq, invocation_id = position
            elif message.answers:
                return None
        if log.queue.has_event(request.event.id):
            # It was sent before, and waits beside that request until one of them opens the turn.
            return None
        if log.queue.has_new(invocation_id):
            is_other = differs(message.fingerprint, log.queue.fingerprint(invocation_id))
            return KnownTurn(invocation_id, None, answer_seq, is_other)
        # One in line that is not new was paused, and its answer waits: it has a record.
        row = await self._lookup.row(log, invocation_id)
        # It may have been queued meanwhile: two drivers may ask for the same turn at the same time.
        if row is None and not log.queue.has(invocation_id):
            return None
        # The id of an answer is that of the turn which made the call, and which began with another request.
        is_other = not answer_seq and await self._lookup.began_with_other(log, row, message.fingerprint)
        # An agent has read it while the turn ran: it has opened nothing.
        was_read = row is not None and answer_seq > row.opened_seq
        return KnownTurn(invocation_id, row, 0 if was_read else answer_seq, is_other)

    async def _join(self, request: PendingOpen, known: KnownTurn, is_lost: bool) -> p.TurnJoined | None:
        """Follow a turn. None when it could not be opened after it was found."""
        log, row = request.log, known.row
        await self._lookup.join(log, known.invocation_id, row, request.message.subscriber, known.answer_seq)
        self._give_back(request)
        # The reply says that the turn is there.
        await self._logs.opened(log)
        if row is not None and row.opened_seq > log.committed_seq:
            return None
        agent = row.agent if row is not None else ""
        return p.TurnJoined(invocation_id=known.invocation_id, seq=known.answer_seq, agent=agent, is_lost=is_lost)

    async def _leave(self, request: PendingOpen) -> p.MessageLeft | None:
        """Leave a message for a turn that can read it. None: there is none, or one has read it."""
        for leave in self._parts.leaving_hooks:
            if (left := await leave(request.log, request.message, request.event)) is not None:
                self._give_back(request)
                return left
        return None

    def _give_back(self, request: PendingOpen) -> None:
        """Let the next turn begin, should the session be taken for this request, which begins none."""
        if request.holds_session:
            request.holds_session = False
            request.log.queue.start_next()

    async def _resume(self, request: PendingOpen) -> p.TurnResumed | p.TurnJoined | p.NotLeader:
        """Reply again: the first reply was lost, with the process that sent it or with the Runner that waited for it."""
        message, log = request.message, request.log
        assert log.turn is not None
        row = log.turn.row
        await self._lookup.join(log, row.invocation_id, row, message.subscriber, row.opened_seq)
        if not message.answers and message.epoch <= row.epoch and message.runner == log.turn.runner:
            # This very request, or another one for the turn, has opened it. The Runner knows whether it runs.
            await self._logs.opened(log)
            return p.TurnJoined(invocation_id=row.invocation_id, seq=row.opened_seq, is_lost=True)
        if message.epoch > 1:
            # The Runner that asks again has opened it, and only the Session actor was lost.
            log.turn.runner = message.runner
        reply = await self._recovery.resume_turn(
            p.ResumeTurn(key=message.key, invocation_id=row.invocation_id, runner=message.runner)
        )
        if isinstance(reply, p.TurnResumed | p.NotLeader):
            return reply
        await self._logs.opened(log)
        return p.TurnJoined(invocation_id=row.invocation_id, seq=row.opened_seq)

    async def _begin(self, request: PendingOpen) -> p.TurnBegun | p.MessageLeft:
        message, log = request.message, request.log
        if log.creation is None:
            await self._parts.access.pending_ends.settle(message.key)
            if await self._logs.load(message.key) is not log:
                # Deleted and created again while the request waited.
                raise SessionNotFoundError(message.key.app, message.key.user, message.key.session)
            await self._parts.shared.refresh(message.key)
            # Messages that wait begin their turns before it.
            if request.steers and (left := await self._leave(request)) is not None:
                return left
        if message.may_answer_task and (task := await self._lookup.waiting_task(log)) is not None:
            return await self._continue_paused(request, task)
        if message.answers:
            return await self._continue_paused(request)
        return await self._store(request, self._new_turn(request))

    async def _continue_paused(self, request: PendingOpen, task: WaitingTask | None = None) -> p.TurnBegun:
        """Continue the turn whose calls the message answers, or whose task."""
        log = request.log
        invocation_id = task.invocation_id if task is not None else request.message.invocation_id
        # What was found when the message was checked may have been rewound while it waited.
        calls = await self._reader.calls(log.key, request.message.answers)
        before = request.before = await self._reader.turn(log.key, invocation_id)
        if task is not None:
            topology = self._versions.topology(before.version if before is not None else "")
            request.answer(task, is_delegate=topology.is_delegate(node_at(task.path)))
        message = request.message
        turn = self._reader.turn_of(before or unknown_turn(message.invocation_id, min(call.seq for call in calls)))
        await self._reader.recall(log.key, turn)
        check_answers(request, turn)
        turn.config = message.config.after(turn.config)
        turn.runner = message.runner
        # What has failed begins anew with the answer, as in a turn that is retried. One to no open question changes nothing.
        has_failed = before is not None and before.status == "failed"
        is_retried = has_failed and any(turn.calls.facts_of(each).is_waiting for each in message.answers)
        again = turn.row.again()
        row = msgspec.structs.replace(again, opened_seq=log.head_seq + 1, begun_s=again.begun_s or now_s())
        turn.begin_again(row, log.head_seq if is_retried else None)
        self._versions.go_on(log, turn, log.head_seq)
        if before is not None and before.status in OVER:
            # The agent that made the call gets the answer; but the workflow around it has ended, or failed, without it.
            turn.late_seqs = (*turn.late_seqs, row.opened_seq)
        begun = await self._store(request, turn)
        caller = calls[0].author if calls else request.event.for_task()
        event = message.event if task is not None else b""
        return msgspec.structs.replace(begun, event=event, caller=caller, progress=turn.progress())

    async def _store(self, request: PendingOpen, turn: SessionTurn) -> p.TurnBegun:
        """Store the user's event and the turn's record; then the turn is open."""
        message, log = request.message, request.log
        writes, opened = self._admitted(request, turn)
        before = log.events_missed_by_agents()
        stored = self._parts.writer.add(log, [(message.event, request.event)], writes, opened)
        # The same request may have come again while the store was asked: it must not wait for the end of its own turn.
        log.queue.send_back(lambda waiter: waiter.event_id == request.event.id)
        begun = p.TurnBegun(
            invocation_id=turn.row.invocation_id,
            epoch=turn.row.epoch,
            seq=turn.row.opened_seq,
            generation=log.generation,
            authors=self._parts.deciding(log.authors(), turn.row.version),
            state=encode(log.merged_state(temp=True)),
            traceparent=turn.traceparent,
            before=before,
            version=turn.row.version,
        )
        await stored
        return begun

    def _new_turn(self, request: PendingOpen) -> SessionTurn:
        """The turn that a request begins."""
        message, log = request.message, request.log
        seq = log.head_seq + 1
        row = TurnRow(
            invocation_id=message.invocation_id,
            status="running",
            epoch=message.epoch,
            first_seq=seq,
            opened_seq=seq,
            last_seq=seq,
            begun_s=now_s(),
            version=self._versions.of_new(log),
        )
        turn = SessionTurn.new(row, message.config, self._reader.extensions)
        turn.runner, turn.traceparent = message.runner, message.traceparent
        return turn

    def _admitted(self, request: PendingOpen, turn: SessionTurn) -> tuple[Sequence[Write], Callable[[], None]]:
        """Check the user's event, and open the turn. Returns what is stored beside the event, and what is called when it is."""
        message, log = request.message, request.log
        temp = only_temp(message.state_delta) if message.state_delta else None
        self._admission.event(log, message.event, request.event)
        due, hooks = message.due, self._parts.due_hooks
        beside = [write for hook in hooks for write in hook.writes(log.key, due)] if due is not None else []
        if temp:
            self._admission.temp(turn.temp, temp)
            turn.temp.update(temp)
        log.turn = turn
        self._parts.access.pending_ends.forget_attempt(log.key, message.invocation_id, turn.row.epoch)
        writes: list[Write] = [log.put_turn(turn.record()), *beside]

        def opened() -> None:
            self._parts.access.pending_ends.forget_ends(log.key, message.invocation_id, turn.row.epoch)
            # What its agents say is shown after this, so the subscriber misses nothing; nor does it hear of a turn that is not
            # stored.
            self._subscriptions.add(message.subscriber, log.key, message.invocation_id, turn.row.opened_seq)
            self._parts.counts["turns"] += 1
            log.queue.note_opened()
            if due is not None:
                for hook in hooks:
                    hook.opened(due)

        return writes, opened

    def _let_go(self, request: PendingOpen, error: BaseException) -> None:
        """The turn could not begin: tell its subscribers, and let the next turn begin."""
        message, log = request.message, request.log
        # With its arguments, so that every driver raises the error itself: no agent has failed.
        told: p.AnyOutcome = failure(error)
        if isinstance(error, StoreError) and not isinstance(error, StoreConflictError) and log.turn is not None:
            # It may have begun in the store: a commit that is made again since its outcome was not known may fail for good.
            also = self._parts.ending(log, log.turn, told)
            self._parts.store_end_later(log, log.turn.ended("", told), also, is_doubtful=True)
        elif request.before is not None and request.before.outcome:
            # Only the answer is refused: the turn is as it was.
            told = p.decode_outcome(request.before.outcome)
        log.turn = None
        log.queue.start_next()
        if isinstance(error, SessionNotFoundError):
            # It was deleted while the turn waited in line. Another request for the turn may begin it anew, so it is dropped.
            return
        self._subscriptions.publish_end(message.key, message.invocation_id, told)

    def _tell_if_dropped(self, log: SessionLog, invocation_id: str) -> None:
        """Tell the subscribers of a turn that has left the queue and has not begun: its request may never come again."""
        if log.open_row(invocation_id) is None and not log.queue.has(invocation_id):
            self._subscriptions.publish_dropped(log.key, invocation_id)
