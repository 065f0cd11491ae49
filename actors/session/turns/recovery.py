"""Going on after losses: a Runner was started again, a Runner was lost, or runs of an agent were."""

from __future__ import annotations

import msgspec

from actors.errors import InvocationNotFoundError, SessionBusyError, StoreError, StoreUnavailableError, TurnStateError
from actors.interfaces.records import Write
from actors.messages import protocol as p
from actors.messages.session import Shard
from actors.rules.capacity.sharding import holds
from actors.rules.recovery.failures import failure
from actors.rules.routing.selection import selectable
from actors.session.log.event_scan import scan
from actors.session.log.open_turn import SessionTurn, TurnNotes
from actors.session.log.session_log import SessionLog
from actors.session.turns.lookup import TurnLookup, missing_notes
from actors.session.turns.parts import SessionParts
from actors.session.turns.reset import TurnResets


class TurnRecovery:
    """Answers AnnounceRunner, ListOpenTurns, ResumeTurn, RetryTurn, AbandonRuns and BeginAlone."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader
        self._writer = parts.writer
        self._lookup = lookup
        self._resets = TurnResets(parts)

    async def announce_runner(self, message: p.AnnounceRunner) -> p.Ack | p.AnnounceFirst:
        """Give a Runner the place of the one before, and drop what that had in the queues."""
        refusal = self._parts.runners.announce(message.runner, message.number, message.term)
        if refusal is not None:
            return refusal
        self._drop_predecessor(message.runner, message.shard)
        return p.Ack()

    def _drop_predecessor(self, runner: str, shard: Shard) -> None:
        for log in self._logs.all_in_memory(in_use=True):
            if not holds(shard, log.key):
                continue
            if log.turn is not None and log.turn.runner != runner:
                # Lost until it is resumed. Should that fail, the next subscriber learns that it is lost.
                log.turn.runner = ""
            log.queue.send_back(lambda waiter: waiter.runner != runner)

    async def list_open_turns(self, message: p.ListOpenTurns) -> p.OpenTurnsReply | p.AnnounceFirst:
        """Drop what a Runner's predecessor had in the queues, and list the turns that it has left open. Raises StoreError."""
        refusal = self._parts.runners.refusal(message.runner, message.term)
        if refusal is not None:
            return refusal
        self._drop_predecessor(message.runner, message.shard)
        lost = []
        rows = await self._reader.open_turns(message.app)
        for log in self._logs.all_in_memory(in_use=True):
            if log.turn is not None and log.is_stale and holds(message.shard, log.key):
                # The store may have its end, of which only actors that were lost would have asked.
                await self._logs.find(log.key)
        for key, row in rows:
            if not holds(message.shard, key) or not holds(self._parts.shard, key):
                continue
            log_in_memory = self._logs.in_memory(key)
            turn = log_in_memory.turn if log_in_memory is not None else None
            # One that is resumed by a request whose commit is under way, and may fail, is listed as well.
            is_resumed = turn is not None and (turn.row.invocation_id, turn.row.epoch) == (row.invocation_id, row.epoch)
            if turn is None or turn.runner != message.runner or not is_resumed:
                lost.append((key, row.invocation_id))
        return p.OpenTurnsReply(turns=lost)

    async def resume_turn(self, message: p.ResumeTurn) -> p.ResumeTurnReply:
        """Give an open turn to a Runner with a new epoch, which fences off the Runner that had it. Raises StoreError."""
        while True:
            log = await self._logs.find(message.key)
            turn = log.turn if log is not None else None
            if log is None or turn is None or turn.row.invocation_id != message.invocation_id:
                if self._parts.access.pending_ends.owes_end(message.key, message.invocation_id):
                    # Should this actor be lost before, the turn is open.
                    raise StoreUnavailableError("the session store", "the end of the turn is still to be stored")
                return p.NothingToResume()
            if not turn.is_ending:
                break
            # The end may not get to the disk.
            await turn.settled()
        refusal = self._parts.runners.refusal(message.runner, message.term)
        if refusal is not None:
            return refusal
        if message.running is not None and log.is_current(message.running):
            turn.runner = message.runner
            return p.TurnKept()
        # A concurrent request gets a later epoch, and fences off this one.
        epoch = turn.row.epoch + 1
        turn.go_on_by(self._parts.versions.of_open(log, turn.row), log.head_seq)
        turn.row = msgspec.structs.replace(turn.row, epoch=epoch)
        if message.runner not in (turn.runner, turn.resumed_by):
            # Else it asks again, since the reply was lost.
            turn.count_loss_of_runner()
        turn.runner = turn.resumed_by = message.runner
        turn.lost.clear()
        turn.reserved.clear()
        self._parts.subscriptions.drop_answers(log.key)
        try:
            await self._logs.commits.write(log, [log.put_turn(turn.record())])
            return await self._resumed(log, turn, epoch)
        except StoreError:
            if turn.row.epoch == epoch:
                # Lost as before: the Runner that asks again for open turns has to hear of it.
                turn.runner = ""
            raise

    async def retry_turn(self, message: p.RetryTurn) -> p.ResumeTurnReply:
        """Open a failed turn again, and give it to a Runner. One that runs is given to it as by ResumeTurn.

        With `from_event` a turn that has ended in whatever way, or is paused: see `turns.reset`.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            TurnStateError: it has not failed, runs, or another one has spoken after that event.
            RequestError: it has no such event.
            SessionBusyError: another turn of the session runs.
            StoreError: it could not be stored.
        """
        key, invocation_id = message.key, message.invocation_id
        await self._lookup.settled(key, invocation_id)
        await self._parts.store_owed_ends(key)
        log, row = await self._lookup.log_and_row(key, invocation_id)
        if log.open_row(invocation_id) is not None:
            if message.from_event and (log.turn is None or log.turn.retry != message.request):
                raise TurnStateError(f"turn {invocation_id!r} runs: cancel it before it is run again from an event")
            return await self.resume_turn(
                p.ResumeTurn(key=key, invocation_id=invocation_id, runner=message.runner, running=message.running)
            )
        if row is None:
            raise InvocationNotFoundError(invocation_id, key.session)
        if message.request and TurnNotes.of(row).retry == message.request:
            # The request was sent again, and the turn has ended once more meanwhile.
            return p.NothingToResume()
        if not message.from_event and row.status != "failed":
            raise TurnStateError(f"turn {invocation_id!r} cannot be retried: it is {row.status}, and only a failed one can")
        refusal = self._parts.runners.refusal(message.runner)
        if refusal is not None:
            return refusal
        if log.queue.is_taken:
            raise SessionBusyError(key.session, log.open_id())
        log.queue.is_taken = True
        turn = SessionTurn.of(row)
        try:
            if message.from_event:
                await self._resets.take_back(log, turn, message)
                self._parts.access.pending_ends.forget_ends(log.key, invocation_id, turn.row.epoch)
            else:
                return await self._retried(log, turn, message)
        except BaseException as error:
            if isinstance(error, StoreError):
                # It may run in the store.
                self._parts.store_end_later(log, turn.ended(row.agent, failure(error)), is_doubtful=True)
            log.turn = None
            log.queue.start_next()
            raise
        return await self._run_again(log, turn, message.runner)

    async def _run_again(self, log: SessionLog, turn: SessionTurn, runner: str) -> p.TurnResumed:
        """Have a turn go on whose record says so, and of which events were taken back. Raises StoreError."""
        log.turn, turn.runner = turn, runner
        log.mark_stale()
        self._parts.counts["turns"] += 1
        try:
            await self._logs.load(log.key)
            return await self._resumed(log, turn, turn.row.epoch)
        except StoreError:
            # Lost, and open: the Runner that asks again for open turns has to hear of it.
            turn.runner = ""
            raise

    async def _retried(self, log: SessionLog, turn: SessionTurn, message: p.RetryTurn) -> p.TurnResumed:
        await self._reader.recall(log.key, turn)
        turn.config = message.config.after(turn.config) if message.config is not None else turn.config
        turn.runner = turn.resumed_by = message.runner
        turn.retry = message.request
        turn.losses.clear()
        turn.begin_time()
        turn.retried_seq = log.head_seq
        turn.go_on_by(self._parts.versions.of_open(log, turn.row), log.head_seq)
        turn.row = turn.row.again()
        log.turn = turn
        self._parts.access.pending_ends.forget_attempt(log.key, turn.row.invocation_id, turn.row.epoch)
        await self._logs.commits.write(log, [log.put_turn(turn.record())])
        self._parts.access.pending_ends.forget_ends(log.key, turn.row.invocation_id, turn.row.epoch)
        self._parts.counts["turns"] += 1
        return await self._resumed(log, turn, turn.row.epoch)

    async def _resumed(self, log: SessionLog, turn: SessionTurn, epoch: int) -> p.TurnResumed:
        """The reply with which a Runner goes on with a turn. Raises StoreError."""
        opened_seq = turn.row.opened_seq
        event = (await self._reader.events(log.key, after_seq=opened_seq - 1, limit=1))[0]
        scanned = scan(event.raw)
        answered = await self._reader.calls(log.key, scanned.answered())
        authors = await self._reader.authors(log.key, opened_seq)
        return p.TurnResumed(
            epoch=epoch,
            seq=opened_seq,
            event=event.raw,
            config=turn.config,
            caller=answered[0].author if answered else scanned.for_task(),
            generation=log.generation,
            authors=self._parts.deciding(selectable(authors), turn.row.version),
            progress=turn.progress(),
            traceparent=turn.traceparent,
            version=turn.row.version,
        )

    async def abandon_runs(self, message: p.AbandonRuns) -> p.TurnProgress:
        """Fence off runs of a turn, and tell how far the turn is. Raises FencedError, StoreError."""
        log, turn = await self._lookup.current(message.turn)
        turn.lost.update(message.lost)
        for run in message.lost:
            turn.reserved.pop(run, None)
        self._parts.subscriptions.drop_answers(message.turn.key, message.lost)
        # What the runs have sent already may be on its way to the disk; so may this very message, if it comes again.
        await self._parts.access.commits.flush()
        log, turn = await self._lookup.current(message.turn)
        # A supervisor that was abandoned meanwhile has begun again, and with another note.
        notes = missing_notes(turn, [note for note in message.notes if note.run not in turn.lost])
        is_news = message.run and turn.count_loss(
            message.run, message.times, ran_code=message.ran_code, agent=message.agent, reason=message.reason
        )
        writes: list[Write] = [log.put_turn(turn.record())] if is_news else []
        if notes or writes:
            await self._writer.add(log, notes, writes)
        return turn.progress()

    async def begin_alone(self, message: p.BeginAlone) -> p.Ack:
        """Store that a run begins in a process of its own, before it does. Raises FencedError, StoreError."""
        # If it was sent before, that may be on its way to the disk, and may not arrive there.
        await self._parts.access.commits.flush()
        log, turn = await self._lookup.current(message.turn)
        if turn.begin_alone(message.run, message.attempt):
            await self._logs.commits.write(log, [log.put_turn(turn.record())])
        return p.Ack()
