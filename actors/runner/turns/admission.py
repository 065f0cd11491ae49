"""Which turns may wait to begin, and when each of them comes to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.errors import OverloadedError
from actors.interfaces.telemetry import Telemetry
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.limits import Limits
from actors.messages.session import TurnKey
from actors.refs.session import SessionRef
from actors.rules.capacity.backlog import Backlog
from actors.runner.turns.gate import GatePlace, TurnGate


class TurnAdmission:
    """Admits turns.

    Args:
        session: the Session actor, which knows the turns that are there.
        limits: of what may wait.
        opened_at_once: how many turns are opened at the same time.
        telemetry: learns how long turns wait.
    """

    def __init__(self, session: SessionRef, limits: Limits, opened_at_once: int, telemetry: Telemetry) -> None:
        self._session = session
        self._backlog = Backlog(limits)
        self._gate = TurnGate(opened_at_once)
        self._telemetry = telemetry

    @property
    def waiting(self) -> int:
        """The number of turns that were asked for and have not begun."""
        return len(self._backlog)

    @asynccontextmanager
    async def admitted(self, message: p.StartTurn) -> AsyncIterator[GatePlace]:
        """Wait until a turn may be opened, which is done inside the block; until that ends the turn counts as one that waits.

        Raises:
            OverloadedError: as much waits as may.
            TurnCancelledError: it was cancelled meanwhile.
        """
        turn = (message.key, message.invocation_id)
        size = len(encode(message.content)) + len(encode(message.state_delta))
        now_s = asyncio.get_running_loop().time()
        refusal = self._backlog.refusal(turn, size, now_s)
        if refusal is not None:
            await self._check_that_it_is_there(message, refusal)
        self._backlog.add(turn, size, now_s)
        try:
            with await self._gate.enter(turn) as place:
                yield place
            self._telemetry.turn_waited(asyncio.get_running_loop().time() - now_s)
        finally:
            self._backlog.remove(turn)

    def cancel(self, turn: TurnKey) -> None:
        """Have no request wait any more until the turn may be opened."""
        self._gate.cancel(turn)

    async def cancel_waiting_turns(self, message: p.CancelWaitingTurns) -> p.Ack:
        """Cancel the turns of a user that wait to be opened."""
        self._gate.cancel_user(message.user)
        return p.Ack()

    async def _check_that_it_is_there(self, message: p.StartTurn, refusal: OverloadedError) -> None:
        """A turn that is there already is joined, and waits no more. Raises the refusal of any other one."""
        if not message.repeatable:
            raise refusal
        found = await self._session.find_turn(
            p.FindTurn(
                key=message.key,
                invocation_id=message.invocation_id,
                fingerprint=message.fingerprint,
                auto_create=message.auto_create,
            )
        )
        if not found.is_there:
            raise refusal
