"""Running a turn again from a step of it (semantics.md, "Run again from a step").

Rules of this file:

- What came after the step is taken back as by a rewind: its events are hidden, and the state is what it was. All of it, and that
  the turn runs, is one transaction. The turn then goes on as one does whose processes were all lost after that step.
- Only the turn's own events may stand after the step: those of others would lose what they are about.
- What was taken back was paid for: it stays in the sums of the turn, and counts for its budgets.
"""

from __future__ import annotations

import msgspec

from actors.errors import RequestError, TurnStateError
from actors.interfaces.records import HideEvents, PutState, TurnRow, Write
from actors.layers.retries.last_retry import LastRetry
from actors.layers.retries.messages import RetryTurn
from actors.messages.event import RESET, USER, Event, EventActions, new_event_id, new_invocation_id, now_s
from actors.rules.accounting.turn_usage import minus
from actors.rules.checks import state as scopes
from actors.session.log.event_scan import new_event, scan
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.service import SessionParts
from actors.session.turns.recovery import Losses


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
