"""Draining: Runners of a deployment that is to be stopped refuse new turns, and say which others are left.

Rules of this file:

- A drain is a lease. The program that drains renews it; when that program is lost, new turns begin again after the lease.
- A lease of 0 s ends it at once.
- What a Runner was asked for before the drain began is not new, also when that Runner was lost and another one is asked again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from actors.actor import Handlers, KeyedLocks
from actors.errors import DrainingError
from actors.messages.protocol.base import Lane, Message, Request, Route
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.runner.service import RunnerParts, RunnerService
from actors.session.service import SessionParts, SessionService
from actors.session.subscriptions import LAGGING


class Draining(Message, frozen=True, kw_only=True):
    """What keeps a deployment from being drained.

    Attributes:
        left: from a Runner, turns that run, begin, end or wait in line; from a Session actor, subscribers with news to fetch.
    """

    left: int

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """The sum of what is left."""
        return cls(left=sum(reply.left for reply in replies))


class Drain(Request[Draining], frozen=True, kw_only=True):
    """Begin no new turn for a while: the deployment is to be stopped. Sent again and again, while it drains.

    A Runner refuses new turns meanwhile. A Session actor only keeps it, for Runners that are started again. Both reply with
    Draining.

    Attributes:
        lease_s: for how long from now, in seconds; 0: new turns may begin again. A program that drains and is lost ends it so.
        since_s: when the drain began, in Unix seconds: what was asked for before is not new.
        wait_s: a Runner may reply so much later, as soon as nothing is left, in seconds.
    """

    route = Route.ALL
    lane = Lane.DIRECT

    lease_s: float
    since_s: float = 0.0
    wait_s: float = 0.0


class GetDrain(Request[Drain], frozen=True, kw_only=True):
    """A Runner that was started again asks a Session actor whether the deployment drains."""

    route = Route.FIRST
    lane = Lane.DIRECT


RETRY_S = 5.0
"""When refused programs may ask again. How long a drain takes and when the next deployment starts is not known, so: soon."""


class DrainLease:
    """The lease, as one actor knows it. It is over at first.

    Attributes:
        since_s: when the drain began, in Unix seconds.
    """

    def __init__(self) -> None:
        self._until_s = -math.inf
        self.since_s = 0.0

    def renew(self, lease_s: float, since_s: float, now_s: float) -> None:
        """Take no new turns for so long from now on."""
        self._until_s = now_s + lease_s if lease_s > 0 else -math.inf
        self.since_s = since_s

    def left_s(self, now_s: float) -> float:
        """For how many seconds yet; 0 when it is over."""
        return max(0.0, self._until_s - now_s)

    def refusal(self, app: str, now_s: float, sent_s: float = 0.0) -> DrainingError | None:
        """Why a turn cannot begin, if it cannot.

        Args:
            sent_s: when it was asked of a Runner that was lost, in Unix seconds; 0: of none.
        """
        is_new = not 0 < sent_s < self.since_s
        return DrainingError(app, RETRY_S) if is_new and self.left_s(now_s) else None


OWED_POLL_S = 0.1
"""How often is looked whether all ends of turns are stored."""


class RunnerDrain(RunnerService):
    """Answers Drain.

    A Runner in the place of one that was lost asks the Session actors, which the program that drains tells as well.
    """

    def __init__(self, parts: RunnerParts) -> None:
        self._session = parts.session
        self._table = parts.table
        self._tasks = parts.tasks
        self._recovery = parts.recovery
        self._lease = DrainLease()
        self._asks = not parts.recovery.has_recovered
        self._asked: set[SessionRef] = set()
        self._in_order: KeyedLocks[SessionRef] = KeyedLocks()
        parts.admission.refusals.append(self.refusal)

    def handlers(self) -> Handlers:
        """Its message."""
        return {Drain: self.drain}

    def figures(self) -> Mapping[str, int]:
        """Whether new turns are refused, as far as this Runner has been told."""
        return {"draining": int(self._lease.left_s(_now_s()) > 0)}

    async def drain(self, message: Drain) -> Draining:
        """Refuse new turns for a while, and tell what is left."""
        self._asks = False
        self._lease.renew(message.lease_s, message.since_s, _now_s())
        ends_s = _now_s() + message.wait_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_s):
                await self._recovery.recovered()
        left = await self._table.emptied(ends_s - _now_s())
        # The store is away, and does not tell when it is back.
        while not left and self._tasks.unsaved and _now_s() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(OWED_POLL_S)
        return Draining(left=left + self._tasks.unsaved + (not self._recovery.has_recovered))

    async def refusal(self, key: SessionKey, sent_s: float) -> DrainingError | None:
        """Why no new turn of a session may begin, if none may: see TurnAdmission.refusal."""
        if self._asks:
            await self._ask(self._session.of(key))
        return self._lease.refusal(key.app, _now_s(), sent_s)

    async def _ask(self, session: SessionRef) -> None:
        # Requests that come meanwhile wait for the same reply, and are let in together, in order.
        async with self._in_order.locked(session):
            if session not in self._asked:
                told = await session.ask(GetDrain())
                self._asked.add(session)
                if self._asks and told.lease_s > self._lease.left_s(_now_s()):
                    self._lease.renew(told.lease_s, told.since_s, _now_s())


class DrainNotes(SessionService):
    """Answers Drain and GetDrain. A Session actor refuses nothing itself: what a Runner has accepted may begin."""

    def __init__(self, parts: SessionParts) -> None:
        self._subscriptions = parts.subscriptions
        self._lease = DrainLease()

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            Drain: self.note_drain,
            GetDrain: self.get_drain,
        }

    async def note_drain(self, message: Drain) -> Draining:
        """Keep that the deployment drains, and tell how many subscribers have news to fetch."""
        self._lease.renew(message.lease_s, message.since_s, _now_s())
        return Draining(left=self._subscriptions.counts[LAGGING])

    async def get_drain(self, _: GetDrain) -> Drain:
        """Tell for how long yet the deployment drains."""
        return Drain(lease_s=self._lease.left_s(_now_s()), since_s=self._lease.since_s)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
