"""Which turns may wait to begin, and when each of them comes to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy

import msgspec

from actors.errors import OverloadedError
from actors.interfaces.deployment_events import tell_event
from actors.interfaces.telemetry import Telemetry
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.limits import Limits
from actors.messages.session import TurnKey
from actors.refs.session import SessionRef
from actors.rules.capacity.backlog import Backlog
from actors.rules.checks.user_message import answers
from actors.runner.turns.draining import TurnDrain
from actors.runner.turns.gate import GatePlace, TurnGate

TOLD_EACH_S = 60.0
"""Seconds between two events that tell of refused turns."""


class TurnAdmission:
    """Admits turns.

    Args:
        session: the Session actor, which knows the turns that are there.
        limits: of what may wait.
        opened_at_once: how many turns are opened at the same time.
        opened_of_many: how many while many users wait.
        telemetry: learns how long turns wait.
        drain: knows whether new turns are refused.
    """

    def __init__(
        self,
        session: SessionRef,
        limits: Limits,
        opened_at_once: int,
        telemetry: Telemetry,
        drain: TurnDrain,
        opened_of_many: int = 0,
    ) -> None:
        self._session = session
        self._drain = drain
        self._backlog = Backlog(limits)
        self._gate = TurnGate(opened_at_once, limits.user_weights, opened_of_many)
        self._telemetry = telemetry
        self._refusals = _Refusals()
        self._clock: Callable[[], float] | None = None

    @property
    def waiting(self) -> int:
        """The number of turns that were asked for and have not begun."""
        return len(self._backlog)

    async def admit(self, message: p.StartTurn, turn: TurnKey) -> AdmittedTurn:
        """Let a turn in to be opened, as soon as it may. Until `leave` it counts as one that waits.

        Raises:
            OverloadedError: as much waits as may.
            DrainingError: the deployment is about to be stopped, and the turn is new.
            TurnCancelledError: it was cancelled meanwhile.
        """
        since_s = self._now_s()
        size = len(encode(message.content)) + (len(encode(message.state_delta)) if message.state_delta else 0)
        if self._drain.may_refuse():
            refusal = await self._drain.refusal(message.key, message.sent_s)
            if refusal is not None and turn not in self._backlog:
                if answers(message.content):
                    # Its turn is there, and stays paused.
                    raise refusal
                await self._check_that_it_is_there(message, refusal)
        full = self._backlog.refusal(turn, size, since_s)
        if full is not None:
            await self._check_that_it_is_there(message, full)
        is_opened = turn in self._backlog and not self._gate.has(turn)
        self._backlog.add(turn, size, since_s)
        try:
            place = await self._gate.enter(turn, is_opened=is_opened)
        except BaseException:
            self._backlog.remove(turn)
            raise
        return AdmittedTurn(turn, place, since_s)

    def leave(self, admitted: AdmittedTurn, *, has_begun: bool) -> None:
        """The turn was opened, or cannot be."""
        place = admitted.place
        if not (has_begun and place.is_kept):
            place.leave()
        if has_begun:
            self._telemetry.turn_waited(self._now_s() - admitted.since_s)
        self._backlog.remove(admitted.turn)

    def _now_s(self) -> float:
        # Asyncio asks the kernel for the process each time that it is asked for the running loop.
        clock = self._clock = self._clock or asyncio.get_running_loop().time
        return clock()

    def cancel(self, turn: TurnKey) -> None:
        """Have no request wait any more until the turn may be opened."""
        self._gate.cancel(turn)

    async def cancel_waiting_turns(self, message: p.CancelWaitingTurns) -> p.Ack:
        """Cancel the turns of a user that wait to be opened."""
        self._gate.cancel_user(message.user)
        return p.Ack()

    async def _check_that_it_is_there(self, message: p.StartTurn, refusal: OverloadedError) -> None:
        """A turn that is there already is joined, and waits no more. Raises the refusal of any other one.

        It raises a copy: an error that the frames hold which it passes, and itself with them, is left to the collector.
        """
        if not message.repeatable:
            self._refusals.count(refusal)
            raise copy(refusal)
        found = await self._session.find_turn(
            p.FindTurn(
                key=message.key,
                invocation_id=message.invocation_id,
                fingerprint=message.fingerprint,
                auto_create=message.auto_create,
            )
        )
        if not found.is_there:
            self._refusals.count(refusal)
            raise copy(refusal)


class _Refusals:
    """Tells of turns that are refused, once a minute at most."""

    def __init__(self) -> None:
        self._count = 0
        self._told_s: float | None = None

    def count(self, refusal: OverloadedError) -> None:
        """Count a refusal."""
        self._count += 1
        now_s = asyncio.get_running_loop().time()
        if self._told_s is None or now_s - self._told_s >= TOLD_EACH_S:
            tell_event("overload", "turns are refused, %d since this was told last: %s", self._count, refusal)
            self._count, self._told_s = 0, now_s


class AdmittedTurn(msgspec.Struct, eq=False):
    """One request for a turn, which may be opened.

    Attributes:
        place: at the gate.
        since_s: when the turn was asked for.
    """

    turn: TurnKey
    place: GatePlace
    since_s: float
