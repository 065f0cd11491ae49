"""Which turns may wait to begin, and when each of them comes to be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from types import MappingProxyType

import msgspec

from actors.errors import OverloadedError, TurnCancelledError
from actors.interfaces.telemetry import Telemetry, tell_event
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import Limits
from actors.messages.session import SessionKey, TurnKey
from actors.refs import SessionRef
from actors.rules.checks.user_message import answers
from actors.rules.queues import Backlog, FairQueue, opened_at_once, weights

HOLD_S = 0.25
"""A turn that is opened for longer waits for something else than this process, and lets the next one in."""


class OpenSlot(msgspec.Struct, eq=False):
    """One of the turns that may be opened at the same time.

    Attributes:
        turn: it.
        since_s: when the turn has come in.
        asked_s: when it was asked for.
        is_retained: the turn stays inside when it is open, until its first run is under way.
    """

    _gate: TurnGate
    turn: TurnKey
    since_s: float
    asked_s: float = 0.0
    is_retained: bool = False

    def retain(self) -> bool:
        """Stay inside when the turn is open, if others wait: else its run would stand in line with those of all that are open."""
        self.is_retained = self._gate.has_waiting()
        return self.is_retained

    def release(self) -> None:
        """Let the next turn in, unless that was done."""
        self._gate.leave(self)


class _Waiter(msgspec.Struct, eq=False):
    """A request that waits; `slot` is done when it is let in."""

    turn: TurnKey
    slot: asyncio.Future[OpenSlot]


class TurnGate:
    """Lets turns in, fairly. Those of one session come in in the order in which they were asked for.

    Args:
        at_once: how many turns may be inside.
        user_weights: see Limits.
        of_many: how many, while more users wait than `at_once`: as many as there are users, and at most so many.
    """

    def __init__(self, at_once: int, user_weights: Mapping[str, int] = MappingProxyType({}), of_many: int = 0) -> None:
        self._at_once = at_once
        self._of_many = of_many
        # In the order in which they came in.
        self._inside: dict[OpenSlot, None] = {}
        self._waiting: FairQueue[_Waiter] = FairQueue(weights(user_weights))
        # All that wait, and those that were let in and do not know it yet.
        self._by_turn: dict[TurnKey, list[_Waiter]] = {}
        # The latter.
        self._coming: dict[_Waiter, SessionKey] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of turns that wait."""
        return len(self._waiting)

    def has_waiting(self) -> bool:
        """True while any turn waits."""
        return bool(self._by_turn) and self._waiting.has_any()

    def has(self, turn: TurnKey) -> bool:
        """True while a request waits for the turn."""
        return turn in self._by_turn

    async def enter(self, turn: TurnKey, *, is_opened: bool = False) -> OpenSlot:
        """Wait until a turn may be opened. Raises TurnCancelledError when it is cancelled while it waits.

        Args:
            is_opened: another request opens the turn, which this one joins: a cancel must find both where it finds one.
        """
        loop = asyncio.get_running_loop()
        # One that has room and finds nothing before it need not wait.
        is_first = not self._by_turn or not (self._waiting.has_any() or turn[0] in self._coming.values())
        if is_opened or (is_first and self._has_room()):
            return self._let_in(turn, loop.time())
        waiter = _Waiter(turn, loop.create_future())
        self._waiting.add(waiter, turn[0].user, turn[0])
        self._by_turn.setdefault(turn, []).append(waiter)
        self._watch()
        if self._has_room():
            # With one more user there is room for one more turn. Soon: who was let in before this one comes in before it.
            loop.call_soon(self._fill)
        try:
            return await waiter.slot
        except asyncio.CancelledError:
            if not self._waiting.remove(waiter) and not waiter.slot.cancelled():
                waiter.slot.result().release()
            raise
        finally:
            self._forget(waiter)
            if self._coming.pop(waiter, None) is not None:
                self._fill()

    def cancel(self, turn: TurnKey) -> None:
        """Have no request wait for the turn any more."""
        for waiter in self._by_turn.get(turn, ()):
            if self._waiting.remove(waiter) and not waiter.slot.done():
                waiter.slot.set_exception(TurnCancelledError(turn[1]))

    def cancel_user(self, user: str) -> None:
        """Have no request of a user wait any more."""
        for turn in {waiter.turn for waiter in self._waiting if waiter.turn[0].user == user}:
            self.cancel(turn)

    def leave(self, slot: OpenSlot) -> None:
        """Let the next turn in for one that is inside."""
        if self._inside.pop(slot, self) is None and self._by_turn:
            self._fill()

    def _forget(self, waiter: _Waiter) -> None:
        waiters = self._by_turn[waiter.turn]
        waiters.remove(waiter)
        if not waiters:
            del self._by_turn[waiter.turn]

    def _fill(self) -> None:
        while self._waiting.has_any() and self._has_room():
            first = self._waiting.take()
            # All requests for a turn come in together.
            for waiter in [first, *(each for each in self._by_turn[first.turn] if self._waiting.remove(each))]:
                if not waiter.slot.done():
                    self._coming[waiter] = waiter.turn[0]
                    waiter.slot.set_result(self._let_in(waiter.turn, waiter.slot.get_loop().time()))

    def _has_room(self) -> bool:
        inside = len(self._inside)
        if inside < self._at_once:
            return True
        # More than there are users are never inside, beyond those that may be however few they are.
        users = self._waiting.count_owners()
        return inside < users and inside < opened_at_once(users, self._at_once, self._of_many)

    def _let_in(self, turn: TurnKey, now_s: float) -> OpenSlot:
        slot = OpenSlot(self, turn, now_s)
        self._inside[slot] = None
        return slot

    def _watch(self) -> None:
        """Look again when the turn that has been inside for longest has had its time."""
        if self._timer is None and self._inside and self._waiting.has_any():
            first = next(iter(self._inside))
            self._timer = asyncio.get_running_loop().call_at(first.since_s + HOLD_S, self._let_late_ones_go)

    def _let_late_ones_go(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        for slot in [each for each in self._inside if each.since_s + HOLD_S <= now_s]:
            slot.release()
        self._watch()


TOLD_EACH_S = 60.0
"""Seconds between two events that tell of refused turns."""

Refuse = Callable[[SessionKey, float], Awaitable[OverloadedError | None]]
"""Takes a session, and `sent_s` of StartTurn. Returns the reason why no new turn of the session may begin; None: it may."""


class TurnAdmission:
    """Admits turns.

    Args:
        opened_at_once: how many turns are opened at the same time.
        opened_of_many: how many while many users wait.

    Attributes:
        refusals: asked by `refusal`; features add to them.
    """

    def __init__(
        self,
        session: SessionRef,
        limits: Limits,
        opened_at_once: int,
        telemetry: Telemetry,
        opened_of_many: int = 0,
    ) -> None:
        self._session = session
        self.refusals: list[Refuse] = []
        self._backlog = Backlog(limits)
        self._gate = TurnGate(opened_at_once, limits.user_weights, opened_of_many)
        self._telemetry = telemetry
        # Refused turns since an event told of them last, and when that was.
        self._untold = 0
        self._told_s: float | None = None

    @property
    def waiting(self) -> int:
        """The number of turns that were asked for and have not begun."""
        return len(self._backlog)

    async def admit(self, message: p.StartTurn, turn: TurnKey) -> OpenSlot:
        """Let a turn in to be opened, as soon as it may. Until `leave` it counts as one that waits.

        Raises:
            OverloadedError: as much waits as may, or no new turn may begin.
            TurnCancelledError: it was cancelled meanwhile.
        """
        asked_s = _now_s()
        size = len(encode(message.content)) + (len(encode(message.state_delta)) if message.state_delta else 0)
        refusal = await self.refusal(message.key, message.sent_s)
        if refusal is not None and turn not in self._backlog:
            if answers(message.content):
                # Its turn is there, and stays paused.
                raise refusal
            await self._check_that_it_is_there(message, refusal)
        full = self._backlog.refusal(turn, size, asked_s)
        if full is not None:
            await self._check_that_it_is_there(message, full)
        is_opened = turn in self._backlog and not self._gate.has(turn)
        self._backlog.add(turn, size, asked_s)
        try:
            slot = await self._gate.enter(turn, is_opened=is_opened)
        except BaseException:
            self._backlog.remove(turn)
            raise
        slot.asked_s = asked_s
        return slot

    async def refusal(self, key: SessionKey, sent_s: float = 0.0) -> OverloadedError | None:
        """The first reason of a feature why no new turn of a session may begin. `sent_s`: see StartTurn."""
        for refuse in self.refusals:
            if (refusal := await refuse(key, sent_s)) is not None:
                return refusal
        return None

    def leave(self, slot: OpenSlot, *, has_begun: bool) -> None:
        """The turn was opened, or cannot be."""
        if not (has_begun and slot.is_retained):
            slot.release()
        if has_begun:
            self._telemetry.turn_waited(_now_s() - slot.asked_s)
        self._backlog.remove(slot.turn)

    def cancel(self, turn: TurnKey) -> None:
        """Have no request wait any more until the turn may be opened."""
        self._gate.cancel(turn)

    def cancel_user(self, user: str) -> None:
        """Have no request of a user wait any more."""
        self._gate.cancel_user(user)

    async def _check_that_it_is_there(self, message: p.StartTurn, refusal: OverloadedError) -> None:
        """A turn that is there already is joined, and waits no more. Raises the refusal of any other one.

        It raises a copy: an error that the frames hold which it passes, and itself with them, is left to the collector.
        """
        if not message.repeatable:
            self._tell_refused(refusal)
            raise copy(refusal)
        found = await self._session.ask(
            p.FindTurn(
                key=message.key,
                invocation_id=message.invocation_id,
                fingerprint=message.fingerprint,
                auto_create=message.auto_create,
            )
        )
        if not found.is_there:
            self._tell_refused(refusal)
            raise copy(refusal)

    def _tell_refused(self, refusal: OverloadedError) -> None:
        """Tell of turns that are refused, once a minute at most."""
        self._untold += 1
        now_s = _now_s()
        if self._told_s is None or now_s - self._told_s >= TOLD_EACH_S:
            tell_event("overload", "turns are refused, %d since this was told last: %s", self._untold, refusal)
            self._untold, self._told_s = 0, now_s


def _now_s() -> float:
    return asyncio.get_running_loop().time()
