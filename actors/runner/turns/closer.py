"""Has the Session actor store how turns have ended, until it has."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from actors.errors import ActorLostError, FencedError, RaygroveError, StoreError
from actors.messages import protocol as p
from actors.messages.session import TurnKey
from actors.refs.session import SessionRef
from actors.rules.recovery.backoff import Backoff

logger = logging.getLogger(__name__)

BACKOFF = Backoff(first_s=1.0, longest_s=30.0)
"""How long to wait before the ends of turns that could not be stored are sent again."""


class TurnCloser:
    """Closes turns.

    The Session actor keeps an end that the store does not take, and stores it when the store is back. If it is lost before that,
    the turn would be open until the next message of its session, and run again then, although its driver was told how it
    ended. So the Runner keeps such ends, too, and sends them again.

    Args:
        session: the Session actor.
    """

    def __init__(self, session: SessionRef) -> None:
        self._session = session
        self._owed: dict[TurnKey, p.CloseTurn] = {}
        self._sender: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def owed(self) -> int:
        """The number of ends that are still to be stored."""
        return len(self._owed)

    def owes(self, turn: TurnKey) -> bool:
        """True when the end of this turn is still to be stored."""
        return turn in self._owed

    async def close(self, turn: p.TurnRef, agent: str, outcome: p.AnyOutcome) -> bool:
        """Store how a turn has ended, now or later. Returns False when that is another Runner's to say."""
        message = p.CloseTurn(turn=turn, agent=agent, outcome=outcome)
        try:
            return await self._send(message)
        except (StoreError, ActorLostError) as error:
            if self._is_stopped:
                # Of a turn that has begun while the others were being cancelled.
                logger.error("the record of turn %s was not written, and the turn is open: %s", turn.invocation_id, error)
                return True
            logger.error("the record of turn %s will be written when that is possible: %s", turn.invocation_id, error)
            self._owed[turn.key, turn.invocation_id] = message
            if self._sender is None or self._sender.done():
                self._sender = asyncio.create_task(self._send_again())
        return True

    async def _send_again(self) -> None:
        failed = 1
        while self._owed:
            await asyncio.sleep(BACKOFF.after_attempts(failed))
            for turn in list(self._owed):
                await self.settle(turn)
                if turn in self._owed:
                    failed += 1
                    # Behind the others: those of another Session actor may be stored by now.
                    self._owed[turn] = self._owed.pop(turn)
                    break

    async def settle(self, turn: TurnKey) -> None:
        """Send the end of a turn now, if it is still to be stored: then the Session actor knows of it, unless it is away."""
        message = self._owed.get(turn)
        if message is None:
            return
        with suppress(StoreError, ActorLostError):
            await self._send(message)
            if self._owed.get(turn) is message:
                del self._owed[turn]

    async def _send(self, message: p.CloseTurn) -> bool:
        """Returns False if the turn is another Runner's, or over. Raises StoreError, ActorLostError: send it again."""
        try:
            await self._session.close_turn(message)
        except FencedError:
            return False
        except (StoreError, ActorLostError):
            raise
        except RaygroveError as error:
            logger.error("the record of turn %s could not be written: %s", message.turn.invocation_id, error)
        return True

    def stop(self) -> None:
        """Send nothing again from now on. The Session actor tries once more when it stops itself."""
        self._is_stopped = True
        if self._sender is not None:
            self._sender.cancel()
