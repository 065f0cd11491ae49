"""Going on after losses: a Runner was started again, or was lost."""

from __future__ import annotations

from actors.errors import StoreError, StoreUnavailableError
from actors.messages import protocol as p
from actors.messages.session import Shard
from actors.rules.capacity.sharding import holds
from actors.rules.routing.selection import selectable
from actors.session.log.event_scan import scan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.turns.parts import SessionParts


class TurnRecovery:
    """Answers AnnounceRunner, ListOpenTurns and ResumeTurn."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._reader = parts.reader

    async def announce_runner(self, message: p.AnnounceRunner) -> p.Ack | p.NotLeader:
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

    async def list_open_turns(self, message: p.ListOpenTurns) -> p.OpenTurnsReply | p.NotLeader:
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
                return p.Ack()
            if not turn.is_ending:
                break
            # The end may not get to the disk.
            await turn.settled()
        refusal = self._parts.runners.refusal(message.runner, message.term)
        if refusal is not None:
            return refusal
        if message.running is not None and log.is_current(message.running):
            turn.runner = message.runner
            return p.Ack()
        self._parts.versions.go_on(log, turn, log.head_seq)
        turn.begin_elsewhere(message.runner)
        # A concurrent request gets a later epoch, and fences off this one.
        epoch = turn.row.epoch
        self._parts.subscriptions.drop_answers(log.key)
        try:
            await self._logs.write(log, [log.put_turn(turn.record())])
            return await self.resumed(log, turn, epoch)
        except StoreError:
            if turn.row.epoch == epoch:
                # Lost as before: the Runner that asks again for open turns has to hear of it.
                turn.runner = ""
            raise

    async def resumed(self, log: SessionLog, turn: SessionTurn, epoch: int) -> p.TurnResumed:
        """The reply with which a Runner goes on with a turn. Raises StoreError."""
        log.queue.note_opened()
        opened_seq = turn.row.opened_seq
        event = (await self._reader.events(log.key, after_seq=opened_seq - 1, limit=1))[0]
        scanned = scan(event.raw)
        answered = await self._reader.calls(log.key, scanned.answered())
        authors = await self._reader.authors(log.key, opened_seq)
        return p.TurnResumed(
            invocation_id=turn.row.invocation_id,
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
