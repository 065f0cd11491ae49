"""A Runner's place: Session actors listen to the Runner that has announced itself in it last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from actors.messages import protocol as p
from actors.messages.session import Shard
from actors.refs.session import SessionRef

T = TypeVar("T")


class RunnerPlace:
    """The place of one Runner, which it takes over from a Runner that was lost.

    Args:
        runner_id: the Runner's, as Session actors know it.
        shard: the sessions whose turns it runs.
    """

    def __init__(self, runner_id: str, shard: Shard) -> None:
        self.runner_id = runner_id
        self.shard = shard

    async def announce(self, session: SessionRef, asked: p.AnnounceFirst) -> None:
        """Tell a Session actor, which takes another Runner for the living one, that it is this one."""
        await session.announce_runner(p.AnnounceRunner(runner=self.runner_id, shard=self.shard, number=asked.number))

    async def heard(self, session: SessionRef, ask: Callable[[], Awaitable[T | p.AnnounceFirst]]) -> T:
        """Ask a Session actor until it listens to this Runner, and return the reply. Raises what `ask` raises."""
        while isinstance(reply := await ask(), p.AnnounceFirst):
            await self.announce(session, reply)
        return reply
