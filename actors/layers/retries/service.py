"""Running a turn again, after a failure or from a step of it."""

from __future__ import annotations

import msgspec

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError, SessionBusyError, StoreError, TurnStateError
from actors.layers.retries.last_retry import LastRetry
from actors.layers.retries.messages import RetryTurn, TurnRetried
from actors.layers.retries.reset import TurnResets, begin_again
from actors.messages import protocol as p
from actors.rules.recovery.failures import failure
from actors.runner.service import RunnerParts, RunnerService
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.recovery import TurnRecovery


class TurnRetries(SessionService):
    """Answers RetryTurn."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._logs = parts.logs
        self._lookup = TurnLookup(parts)
        self._recovery = TurnRecovery(parts, self._lookup)
        self._resets = TurnResets(parts)

    def handlers(self) -> Handlers:
        """Its message."""
        return {RetryTurn: self.retry_turn}

    async def retry_turn(self, message: RetryTurn) -> p.ResumeTurnReply:
        """Open a failed turn again, and give it to a Runner. One that runs is given to it as by ResumeTurn.

        With `from_event` a turn that has ended in whatever way, or is paused: see `retries.reset`.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            TurnStateError: it has not failed, runs, or another one has spoken after that event.
            RequestError: it has no such event.
            SessionBusyError: another turn of the session runs.
            StoreError: it could not be stored.
        """
        key, invocation_id = message.key, message.invocation_id
        await self._lookup.settled(key, invocation_id)
        await self._parts.access.pending_ends.settle(key)
        log, row = await self._lookup.log_and_row(key, invocation_id)
        if log.open_row(invocation_id) is not None:
            if message.from_event and (log.turn is None or LastRetry.of(log.turn).request != message.request):
                raise TurnStateError(f"turn {invocation_id!r} runs: cancel it before it is run again from an event")
            return await self._recovery.resume_turn(
                p.ResumeTurn(key=key, invocation_id=invocation_id, runner=message.runner, running=message.running)
            )
        if row is None:
            raise InvocationNotFoundError(invocation_id, key.session)
        turn = self._parts.reader.turn_of(row)
        if message.request and LastRetry.of(turn).request == message.request:
            # The request was sent again, and the turn has ended once more meanwhile.
            return p.Ack()
        if not message.from_event and row.status != "failed":
            raise TurnStateError(f"turn {invocation_id!r} cannot be retried: it is {row.status}, and only a failed one can")
        refusal = self._parts.runners.refusal(message.runner)
        if refusal is not None:
            return refusal
        if log.queue.is_taken:
            raise SessionBusyError(key.session, log.open_id())
        log.queue.is_taken = True
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
            return await self._recovery.resumed(log, turn, turn.row.epoch)
        except StoreError:
            # Lost, and open: the Runner that asks again for open turns has to hear of it.
            turn.runner = ""
            raise

    async def _retried(self, log: SessionLog, turn: SessionTurn, message: RetryTurn) -> p.TurnResumed:
        await self._parts.reader.recall(log.key, turn)
        begin_again(turn, message, turn.row.again(), log.head_seq)
        self._parts.versions.go_on(log, turn, log.head_seq)
        log.turn = turn
        self._parts.access.pending_ends.forget_attempt(log.key, turn.row.invocation_id, turn.row.epoch)
        await self._logs.write(log, [log.put_turn(turn.record())])
        self._parts.access.pending_ends.forget_ends(log.key, turn.row.invocation_id, turn.row.epoch)
        self._parts.counts["turns"] += 1
        return await self._recovery.resumed(log, turn, turn.row.epoch)


class RunnerRetries(RunnerService):
    """Answers RetryTurn, which it passes on to the Session actor."""

    def __init__(self, parts: RunnerParts) -> None:
        self._place = parts.place
        self._session = parts.session
        self._recovery = parts.recovery

    def handlers(self) -> Handlers:
        """Its message."""
        return {RetryTurn: self.retry_turn}

    async def retry_turn(self, message: RetryTurn) -> TurnRetried:
        """Run a turn on that has failed. One that runs already goes on.

        Raises:
            InvocationNotFoundError, SessionNotFoundError: there is no such turn.
            RequestError: it has not failed.
            DrainingError: the deployment is about to be stopped.
            SessionBusyError: another turn of the session runs.
            StoreError: it could not be stored.
        """

        async def ask(running: p.TurnRef | None) -> p.ResumeTurnReply:
            asked = msgspec.structs.replace(message, runner=self._place.runner_id, running=running)
            reply = await self._session.ask(asked)
            # It comes from Runners only.
            assert not isinstance(reply, TurnRetried)
            return reply

        running = await self._recovery.run_again((message.key, message.invocation_id), ask)
        if running is None:
            # It has ended meanwhile.
            return TurnRetried(agent="", after_seq=0)
        return TurnRetried(agent=running.agent, after_seq=running.retried_seq)
