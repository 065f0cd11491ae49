"""A drain: Runners refuse new turns, and tell what is left of those that are not new; Session actors keep that it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from actors.actor import Handlers, KeyedLocks
from actors.errors import DrainingError
from actors.layers.draining.messages import Drain, Draining, GetDrain
from actors.layers.draining.rules import DrainLease
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.runner.service import RunnerParts, RunnerService
from actors.session.service import SessionParts, SessionService
from actors.session.subscriptions import LAGGING

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
