"""What a stream of a turn, or of a session, says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache

import msgspec

from actors.errors import ClusterError, RaygroveError, TurnCancelledError, TurnError, TurnTimeoutError
from actors.layers.listing.messages import PendingCall
from actors.messages.protocol.base import StoredEvent
from actors.messages.protocol.outcomes import Paused
from actors.messages.turn_info import TurnStateName
from runtime.driver.services.tail import SessionTail
from runtime.driver.turns.turn import Turn, decoded
from runtime.frontends.web.problems import Problem, problem_of
from runtime.frontends.web.redaction import log_failed_turn, shown
from runtime.frontends.web.streams.frames import event_frame, frame

SMALL_BYTES = 32_768
"""An event up to this size has its frame made once for all the streams that it goes to; frames are sent together up to it."""

REMEMBERED = 256
"""Of so many events the frames are remembered, which takes 20 MB at most."""


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last frame of a turn's stream. A stream that ends without it was cut: the client connects again.

    Attributes:
        state: finished, paused, failed or cancelled.
        pending: the calls at which a paused turn waits for a person.
        error: why it failed, or was cancelled.
    """

    invocation_id: str
    state: TurnStateName
    pending: Sequence[PendingCall] = ()
    error: Problem | None = None


async def turn_frames(
    turn: Turn, *, after_seq: int = 0, partials: bool = True, for_operator: bool = False
) -> AsyncIterator[bytes]:
    """The frames of a turn: its events, and how it ended.

    Args:
        turn: leaving its iteration must not cancel it.
        after_seq: leave out stored events up to this one.
        partials: with what is streamed of answers under way.
        for_operator: with the texts and places of errors of users' code.
    """
    try:
        async with aclosing(turn.batches()) as batches:
            async for batch in batches:
                wanted = [stored for stored in batch if (partials and not stored.seq) or stored.seq > after_seq]
                for frames in _frames(wanted, for_operator=for_operator):
                    yield frames
        yield frame("end", await end_of(turn))
    except TurnError as error:
        yield frame("end", failed_end(turn.invocation_id, error, for_operator=for_operator))
    except RaygroveError as error:
        if not isinstance(error, ClusterError):
            yield frame("error", problem_of(error, for_operator=for_operator))
        # After the loss of an actor, or of this server's connection, the client comes back for the rest.
    finally:
        # A turn that goes on sends this server no more news.
        turn.detach()


async def session_frames(tail: SessionTail, *, for_operator: bool = False) -> AsyncIterator[bytes]:
    """The frames of a session: the events of all its turns. They end when the session is deleted."""
    try:
        async with aclosing(tail.batches()) as batches:
            async for batch in batches:
                for frames in _frames(batch, for_operator=for_operator):
                    yield frames
    except RaygroveError as error:
        if not isinstance(error, ClusterError):
            yield frame("error", problem_of(error, for_operator=for_operator))
    finally:
        tail.close()


def _frames(events: Sequence[StoredEvent], *, for_operator: bool) -> Iterator[bytes]:
    """The frames of events that have come at once, several in one piece while they are short. Raises StoreError."""
    piece: list[bytes] = []
    size = 0
    for stored in events:
        make = _frame_again if len(stored.raw) <= SMALL_BYTES else _frame
        piece.append(make(stored.raw, stored.seq, for_operator))
        size += len(piece[-1])
        if size > SMALL_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _frame(raw: bytes, seq: int, for_operator: bool) -> bytes:
    return event_frame(shown(decoded(StoredEvent(seq, raw)), for_operator=for_operator))


_frame_again = lru_cache(REMEMBERED)(_frame)


async def end_of(turn: Turn) -> TurnEnd:
    """The end of a turn that has neither failed nor was cancelled."""
    if isinstance(turn.outcome, Paused):
        return TurnEnd(invocation_id=turn.invocation_id, state="paused", pending=await turn.aio.pending())
    return TurnEnd(invocation_id=turn.invocation_id, state="finished")


def failed_end(invocation_id: str, error: TurnError, *, for_operator: bool) -> TurnEnd:
    """The end of a turn that failed or was cancelled."""
    is_cancelled = isinstance(error, TurnCancelledError | TurnTimeoutError)
    if not is_cancelled:
        log_failed_turn(invocation_id, str(error))
    problem = problem_of(error, for_operator=for_operator)
    return TurnEnd(invocation_id=invocation_id, state="cancelled" if is_cancelled else "failed", error=problem)
