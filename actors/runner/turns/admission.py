"""Which turns may wait to begin, and when each of them comes to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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

    @property
    def waiting(self) -> int:
        """The number of turns that were asked for and have not begun."""
        return len(self._backlog)

    async def admit(self, message: p.StartTurn, turn: TurnKey) -> AdmittedTurn:
        """Wait until a turn may be opened. Until the block of the context manager ends it counts as one that waits.

        Raises:
            OverloadedError: as much waits as may.
            DrainingError: the deployment is about to be stopped, and the turn is new.
            TurnCancelledError: it was cancelled meanwhile.
        """
        clock = asyncio.get_running_loop().time
        since_s = clock()
        if self._drain.may_refuse:
            refusal = await self._drain.refusal(message.key, message.sent_s)
            if refusal is not None and turn not in self._backlog:
                if answers(message.content):
                    # Its turn is there, and stays paused.
                    raise refusal
                await self._check_that_it_is_there(message, refusal)
        size = len(encode(message.content)) + (len(encode(message.state_delta)) if message.state_delta else 0)
        full = self._backlog.refusal(turn, size, since_s)
        if full is not None:
            await self._check_that_it_is_there(message, full)
        self._backlog.add(turn, size, since_s)
        place = self._gate.enter_at_once(turn)
        if place is None:
            try:
                place = await self._gate.enter(turn)
            except BaseException:
                self._backlog.remove(turn)
                raise
        return AdmittedTurn(self, turn, place, since_s, clock)

    def leave(self, turn: TurnKey, place: GatePlace, since_s: float, clock: Callable[[], float], *, has_begun: bool) -> None:
        """The turn was opened, or cannot be. `clock`: that of `since_s`."""
        if not (has_begun and place.is_kept):
            place.leave()
        if has_begun:
            self._telemetry.turn_waited(clock() - since_s)
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
            self._refusals.count(refusal)
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
            self._refusals.count(refusal)
            raise refusal


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
    """One request for a turn, which may be opened: see TurnAdmission.admit.

    A class, since each turn enters one: a generator costs three times as much.
    """

    _admission: TurnAdmission
    _turn: TurnKey
    _place: GatePlace
    _since_s: float
    _clock: Callable[[], float]

    def __enter__(self) -> GatePlace:
        return self._place

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._admission.leave(self._turn, self._place, self._since_s, self._clock, has_begun=kind is None)
