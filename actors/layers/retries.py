"""Running a turn again, after a failure or from a step of it (semantics.md, "Run again from a step").

Rules of this file:

- What came after the step is taken back as by a rewind: its events are hidden, and the state is what it was. All of it, and that
  the turn runs, is one transaction. The turn then goes on as one does whose processes were all lost after that step.
- Only the turn's own events may stand after the step: those of others would lose what they are about.
- What was taken back was paid for: it stays in the sums of the turn, and counts for its budgets.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec.structs import replace

from actors.actor import Handlers
from actors.errors import InvocationNotFoundError, RequestError, SessionBusyError, StoreError, TurnStateError
from actors.interfaces.stores import HideEvents, PutState, TurnRow, Write
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.event import RESET, USER, Event, EventActions, new_event_id, new_invocation_id, now_s
from actors.messages.protocol.base import Lane, Message, Request, Route, TurnRef
from actors.messages.protocol.turns import ResumeTurnReply, TurnProgress
from actors.messages.session import SessionKey
from actors.rules.accounting import minus
from actors.rules.checks import state as scopes
from actors.rules.failures import failure
from actors.runner.service import RunnerParts, RunnerService
from actors.session.log.event_scan import new_event, scan
from actors.session.log.open_turn import SessionTurn, TurnExtension
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts, SessionService
from actors.session.turns.lookup import TurnLookup
from actors.session.turns.recovery import Losses, TurnRecovery


class TurnRetried(Message, frozen=True, kw_only=True):
    """The turn runs again, and was given to `agent`. Its new events stand after `after_seq`."""

    agent: str
    after_seq: int


class RetryTurn(Request[ResumeTurnReply | TurnRetried], frozen=True, kw_only=True):
    """Run a turn that has failed on from its last stored step; or any turn that has ended again from a step of it.

    The Runner replies with TurnRetried; the Session actor, which gives the turn to the Runner that asks, as to ResumeTurn.

    Attributes:
        config: the options of the turn from now on; None: those with which it was opened last.
        from_event: the id of the event after which it runs again; "": after the last one.
        request: names the request: sent again, it does not retry the turn twice.
        runner: of a Runner that asks the Session actor: its id.
        running: see ResumeTurn.
    """

    route = Route.SESSION
    lane = Lane.CHANGE

    key: SessionKey
    invocation_id: str
    config: RunConfig | None = None
    from_event: str = ""
    request: str = ""
    runner: str = ""
    running: TurnRef | None = None


class LastRetry(TurnExtension):
    """Notes how a turn was retried last.

    Attributes:
        seq: failures up to this position do not count: it was retried after them.
        request: the request that has retried it last, or has taken events of it back; "": none has.
    """

    name: ClassVar[str] = "retries"
    seq: int = 0
    request: str = ""

    def dump(self, *, is_over: bool) -> msgspec.Struct:
        """Everything; of a turn that is over the request, which may be sent again."""
        return LastRetry(request=self.request) if is_over else self

    def go_on(self, row: TurnRow, after_seq: int, retried_seq: int | None) -> None:
        """See TurnExtension."""
        if retried_seq is not None:
            self.seq = retried_seq

    def add_progress(self, progress: TurnProgress) -> TurnProgress:
        """See TurnExtension."""
        return replace(progress, retried_seq=self.seq) if self.seq else progress


def begin_again(turn: SessionTurn, message: RetryTurn, row: TurnRow, retried_seq: int) -> None:
    """Have a turn go on for a request that retries it.

    Args:
        row: its record from now on.
        retried_seq: failures up to this position do not count any more.
    """
    turn.config = message.config.after(turn.config) if message.config is not None else turn.config
    turn.runner = Losses.of(turn).resumed_by = message.runner
    LastRetry.of(turn).request = message.request
    turn.begin_again(row, retried_seq)


class TurnResets:
    """Takes back what a turn has done after a step."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._reader = parts.reader
        self._writer = parts.writer

    async def take_back(self, log: SessionLog, turn: SessionTurn, message: RetryTurn) -> None:
        """Hide what came after the step, and store that the turn runs. The log has to be loaded again.

        Args:
            turn: it has ended, or is paused.

        Raises:
            RequestError: the turn has no such event.
            TurnStateError: others have spoken after it.
            StoreError: nothing is stored.
        """
        kept_seq, is_failure = await self._place(log, message)
        await self._reader.recall(log.key, turn)
        used = turn.ledger.spent
        turn.ledger.extra = {}
        await self._reader.recall(log.key, turn, kept_seq)
        turn.ledger.extra = minus(used, turn.ledger.spent)
        turn.take_back()
        # Failures before the step are what was done about them. One that is the step is tried again, as by a retry.
        retried_seq = kept_seq if is_failure else min(LastRetry.of(turn).seq, kept_seq)
        opened_seq = turn.calls.message_seq or turn.row.first_seq
        begin_again(turn, message, msgspec.structs.replace(turn.row.again(), opened_seq=opened_seq), retried_seq)
        self._parts.versions.go_on(log, turn, kept_seq)
        overwritten = scopes.take_back(await self._reader.undos(log.key, kept_seq + 1))
        removed = tuple(key for key, value in overwritten.items() if not value)
        restored = {key: value[0] for key, value in overwritten.items() if value}
        told = Event(
            id=new_event_id(),
            invocation_id=new_invocation_id(),
            author=USER,
            timestamp=now_s(),
            actions=EventActions(state_delta={**restored, **dict.fromkeys(removed)}),
            custom_metadata={RESET: {"invocationId": turn.row.invocation_id, "eventId": message.from_event}},
        )
        writes: list[Write] = [
            PutState(log.key, {}, removed),
            HideEvents(log.key, kept_seq + 1, log.head_seq),
            log.put_turn(turn.record()),
        ]
        self._parts.access.pending_ends.forget_attempt(log.key, turn.row.invocation_id, turn.row.epoch)
        await self._writer.add(log, [new_event(told)], writes)

    async def _place(self, log: SessionLog, message: RetryTurn) -> tuple[int, bool]:
        """The position of the step, and whether it is a failure. Raises TurnStateError, RequestError, StoreError."""
        invocation_id = message.invocation_id
        wanted = f"turn {invocation_id!r} cannot be run again from {message.from_event!r}"
        position = await self._reader.position(log.key, message.from_event)
        if position is None or position[1] != invocation_id:
            raise RequestError(f"{wanted}: it has no such event, or no longer")
        kept_seq = after_seq = position[0]
        while page := await self._reader.page(log.key, after_seq):
            for stored in page:
                event = scan(stored.raw)
                # One that tells of a rewind, or of a reset, says nothing.
                is_told = event.author == USER and event.content is None
                if event.invocation_id != invocation_id and not is_told:
                    raise TurnStateError(
                        f"{wanted}: turn {event.invocation_id!r} has spoken after it. "
                        "Rewind the session to before that turn, or fork it"
                    )
            after_seq = page[-1].seq
        kept = await self._reader.event(log.key, kept_seq)
        return kept_seq, kept is not None and scan(kept.raw).error_code is not None


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

        With `from_event` a turn that has ended in whatever way, or is paused.

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
