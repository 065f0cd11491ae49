"""Clients of several Session actors, or of several Runners, that share the sessions between them.

Each is used as if there were one actor. Where there is only one, its plain client is used: that costs nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from actors.errors import RaygroveError
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.refs.runner import RunnerRef
from actors.refs.session import SessionRef
from actors.refs.statistics import total
from actors.rules.capacity.sharding import shard_of

M = TypeVar("M", bound=p.Message)


class ShardedSessionRef(SessionRef):
    """A client of several Session actors.

    What concerns a session goes to the one that keeps it, what concerns them all to each. A subscriber is known to that which it
    has asked: `of` gives a client of one.

    Args:
        shards: their clients, in order.
    """

    def __init__(self, shards: Sequence[SessionRef]) -> None:
        self._shards = tuple(shards)

    @property
    def shards(self) -> Sequence[SessionRef]:
        """A client of each."""
        return self._shards

    def of(self, key: SessionKey) -> SessionRef:
        """A client of the one that keeps a session."""
        return self._shards[shard_of(key, len(self._shards))]

    async def _ask(self, message: p.Message, reply_type: type[M] | tuple[type[M], ...], *, once: bool = False) -> M:
        return await self.of(_session_of(message))._ask(message, reply_type, once=once)

    async def topology(self) -> Topology:
        """The parent map, which all of them have."""
        return await self._shards[0].topology()

    async def statistics(self) -> p.Statistics:
        """What they have done."""
        return total(await asyncio.gather(*(shard.statistics() for shard in self._shards)))

    async def stop(self) -> None:
        """Write what waits, close the stores."""
        await _all(shard.stop() for shard in self._shards)


class ShardedRunnerRef(RunnerRef):
    """A client of several Runners. What concerns a session goes to the one that runs its turns, what concerns them all to each.

    Args:
        shards: their clients, in order.
    """

    def __init__(self, shards: Sequence[RunnerRef]) -> None:
        self._shards = tuple(shards)

    async def _ask(self, message: p.Message, reply_type: type[M] | tuple[type[M], ...], *, once: bool = False) -> M:
        key = _session_of(message)
        return await self._shards[shard_of(key, len(self._shards))]._ask(message, reply_type, once=once)

    async def statistics(self) -> p.Statistics:
        """What they have done, and what every live agent has."""
        return total(await asyncio.gather(*(shard.statistics() for shard in self._shards)))

    async def stop(self) -> None:
        """Cancel the turns that run, and stop every agent."""
        await _all(shard.stop() for shard in self._shards)


def session_client(shards: Sequence[SessionRef]) -> SessionRef:
    """The client of a deployment's Session actors, by those of each."""
    return shards[0] if len(shards) == 1 else ShardedSessionRef(shards)


def runner_client(shards: Sequence[RunnerRef]) -> RunnerRef:
    """The client of a deployment's Runners, by those of each."""
    return shards[0] if len(shards) == 1 else ShardedRunnerRef(shards)


def _session_of(message: p.Message) -> SessionKey:
    """Whose session a message is about. What is about a user is anybody's, so it is shared out in the same way."""
    match message:
        case p.SearchMemory(app=app, user=user) | p.ListSessionsRequest(app=app, user=user):
            return SessionKey(app, user or "", "")
    named = message if hasattr(message, "key") else getattr(message, "turn", None)
    key = getattr(named, "key", None)
    if not isinstance(key, SessionKey):
        raise RaygroveError(f"{type(message).__name__} is for one actor of several: ask that one, which `of` gives for a session")
    return key


async def _all(asked: Iterable[Awaitable[None]]) -> None:
    """Wait for all, also when one fails; then raise what the first of these has."""
    errors = [error for error in await asyncio.gather(*asked, return_exceptions=True) if error is not None]
    if errors:
        raise errors[0]
