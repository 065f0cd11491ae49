"""A Runner's place: Session actors listen to the Runner that has announced itself in it last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actors.messages import protocol as p
from actors.messages.session import Shard
from actors.refs import SessionRef

T = TypeVar("T")


class RunnerPlace:
    """The place of one Runner, which it takes over from a Runner that was lost.

    Args:
        runner_id: the Runner's, as Session actors know it.
        shard: the sessions whose turns it runs.
        term: see AnnounceRunner.
        on_replaced: called when a Runner with a later term has taken the place of this one.
        is_promoting: see below: requests may come before it has heard that it leads.

    Attributes:
        runner_id, shard: as given.
        term: grows when a standby becomes the Runner.
        on_announced: called when a Session actor has given this Runner its place, and dropped the turns of the one before.
        is_promoting: this Runner takes the place of one that was lost. A later term is of a Runner before it then, and was given
            by a clock that was ahead of this one's, or was set back since.
    """

    def __init__(
        self,
        runner_id: str,
        shard: Shard,
        term: int = 0,
        on_replaced: Callable[[], None] | None = None,
        *,
        is_promoting: bool = False,
    ) -> None:
        self.runner_id = runner_id
        self.shard = shard
        self.term = term
        self.is_promoting = is_promoting
        self._on_replaced = on_replaced
        self._has_term = asyncio.Event()
        self.on_announced: Callable[[SessionRef], None] = lambda session: None

    def promote(self, term: int) -> None:
        """Take the place of a Runner that was lost, in a term. May be called again: a Session actor may know of a later term."""
        self.term = max(term, self.term)
        self.is_promoting = True
        self._has_term.set()

    async def announce(self, session: SessionRef, asked: p.NotLeader) -> None:
        """Tell a Session actor, which takes another Runner for the living one, that it is this one."""
        if asked.term and not self.term and self._on_replaced is not None:
            # What stood by leads now, and is yet to hear in which term: turns may come before that.
            await self._has_term.wait()
        if asked.term > self.term and self.is_promoting:
            # Terms of one of its two processes stay even, those of the other odd.
            self.term += (asked.term - self.term + 2) & ~1
        elif asked.term > self.term and self._on_replaced is not None:
            self._on_replaced()
        message = p.AnnounceRunner(runner=self.runner_id, shard=self.shard, number=asked.number, term=self.term)
        await session.ask(message)
        self.on_announced(session)

    async def ask_as_leader(self, session: SessionRef, ask: Callable[[], Awaitable[T | p.NotLeader]]) -> T:
        """Ask a Session actor until it listens to this Runner, and return the reply. Raises what `ask` raises."""
        while isinstance(reply := await ask(), p.NotLeader):
            await self.announce(session, reply)
        return reply
