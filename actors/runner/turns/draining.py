"""Whether this Runner begins new turns: not while its deployment is about to be stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from actors.errors import DrainingError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.refs.session import SessionRef
from actors.rules.capacity.drain_lease import DrainLease
from actors.runner.turns.table import TurnTable
from actors.runner.turns.tasks import TurnTasks

OWED_POLL_S = 0.1
"""How often is looked whether all ends of turns are stored."""


class TurnDrain:
    """Knows whether new turns are refused, and what is left of those that are not new.

    A Runner in the place of one that was lost asks the Session actors, which the program that drains tells as well.

    Args:
        session: the Session actor.
        table: the turns that run, begin, end or wait in line.
        tasks: knows the ends of turns that are still to be stored.
        is_restarted: this Runner is in the place of one that was lost, and has its turns to recover.
    """

    def __init__(self, session: SessionRef, table: TurnTable, tasks: TurnTasks, *, is_restarted: bool) -> None:
        self._session = session
        self._table = table
        self._tasks = tasks
        self._lease = DrainLease()
        self._asks = is_restarted
        self._asked: set[SessionRef] = set()
        self._recovered = asyncio.Event()
        if not is_restarted:
            self._recovered.set()

    @property
    def is_on(self) -> bool:
        """True while new turns are refused, as far as this Runner has been told."""
        return self._lease.left_s(_now_s()) > 0

    def may_refuse(self) -> bool:
        """False while nothing says that the deployment is about to be stopped: `refusal` has nothing to tell then."""
        return self._asks or self._lease.was_given

    async def drain(self, message: p.Drain) -> p.Draining:
        """Refuse new turns for a while, and tell what is left."""
        self._asks = False
        self._lease.renew(message.lease_s, message.since_s, _now_s())
        ends_s = _now_s() + message.wait_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(ends_s):
                await self._recovered.wait()
        left = await self._table.emptied(ends_s - _now_s())
        # The store is away, and does not tell when it is back.
        while not left and self._tasks.owed and _now_s() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(OWED_POLL_S)
        return p.Draining(left=left + self._tasks.owed + (not self._recovered.is_set()))

    async def refusal(self, key: SessionKey, sent_s: float = 0.0) -> DrainingError | None:
        """Why no new turn of a session may begin, if none may. `sent_s`: see StartTurn."""
        if self._asks:
            await self._ask(self._session.of(key))
        return self._lease.refusal(key.app, _now_s(), sent_s)

    def note_recovered(self) -> None:
        """The turns of the Runner that was lost run here."""
        self._recovered.set()

    async def recovered(self) -> None:
        """Wait until the turns of a Runner that was lost run here."""
        await self._recovered.wait()

    async def _ask(self, session: SessionRef) -> None:
        if session not in self._asked:
            told = await session.ask(p.GetDrain())
            self._asked.add(session)
            if self._asks and told.lease_s > self._lease.left_s(_now_s()):
                self._lease.renew(told.lease_s, told.since_s, _now_s())


def _now_s() -> float:
    return asyncio.get_running_loop().time()
