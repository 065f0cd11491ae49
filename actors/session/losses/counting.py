"""Counting the losses of runs, of which Runners tell."""

from __future__ import annotations

from actors.interfaces.records import Write
from actors.messages import protocol as p
from actors.session.losses.turn_losses import Losses
from actors.session.turns.lookup import TurnLookup, missing_notes
from actors.session.turns.parts import SessionParts


class LossCounts:
    """Answers AbandonRuns and BeginAlone."""

    def __init__(self, parts: SessionParts, lookup: TurnLookup) -> None:
        self._parts = parts
        self._lookup = lookup

    async def abandon_runs(self, message: p.AbandonRuns) -> p.TurnProgress:
        """Fence off runs of a turn, and tell how far the turn is. Raises FencedError, StoreError."""
        log, turn = await self._lookup.current(message.turn)
        turn.fence(message.lost)
        self._parts.subscriptions.drop_answers(message.turn.key, message.lost)
        # What the runs have sent already may be on its way to the disk; so may this very message, if it comes again.
        await self._parts.access.commits.flush()
        log, turn = await self._lookup.current(message.turn)
        # A supervisor that was abandoned meanwhile has begun again, and with another note.
        notes = missing_notes(turn, [note for note in message.notes if note.run not in turn.abandoned])
        is_news = message.run and Losses.of(turn).count(
            turn, message.run, message.times, ran_code=message.ran_code, agent=message.agent, reason=message.reason
        )
        writes: list[Write] = [log.put_turn(turn.record())] if is_news else []
        if notes or writes:
            await self._parts.writer.add(log, notes, writes)
        return turn.progress()

    async def begin_alone(self, message: p.BeginAlone) -> p.Ack:
        """Store that a run begins in a process of its own, before it does. Raises FencedError, StoreError."""
        # If it was sent before, that may be on its way to the disk, and may not arrive there.
        await self._parts.access.commits.flush()
        log, turn = await self._lookup.current(message.turn)
        if Losses.of(turn).begin_alone(turn, message.run, message.attempt):
            await self._parts.logs.commits.write(log, [log.put_turn(turn.record())])
        return p.Ack()
