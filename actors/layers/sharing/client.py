"""Clients of several Session actors, or of several Runners, that serve one shard of the sessions each.

A client of several is used as if there were one actor. Where there is only one, its plain client is used, at no extra cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from actors.errors import RaygroveError
from actors.interfaces.transport import EarlyReply
from actors.layers.sharing.rules import may_share
from actors.messages import protocol as p
from actors.messages.protocol.request import Route, key_of
from actors.messages.session import SessionKey, Shard
from actors.refs import Ref, RunnerRef, SessionRef
from actors.rules.capacity.sharding import all_shards, shard_of

AnyRef = TypeVar("AnyRef", bound=Ref)

M = TypeVar("M", bound=p.Message)


class _ShardedRef(Ref, Generic[AnyRef]):
    """A client of several actors, which sends each request where its route says.

    Args:
        shards: their clients, in order.
    """

    def __init__(self, shards: Sequence[AnyRef]) -> None:
        self._shards = tuple(shards)

    def _serving(self, key: SessionKey) -> AnyRef:
        """A client of the one that serves a session."""
        return self._shards[shard_of(key, len(self._shards))]

    async def _ask(
        self, request: p.Request[Any], replies: tuple[type[M], ...], *, once: bool = False, early: EarlyReply | None = None
    ) -> M:
        match request.route:
            case Route.ALL | Route.USER_ACTORS:
                asked = (shard._ask(request, replies, once=once, early=early) for shard in self._shards)
                found = await asyncio.gather(*asked, return_exceptions=True)
                for each in found:
                    if isinstance(each, BaseException):
                        raise each
                return cast(M, request.joined(found))
            case Route.FIRST:
                shard = self._shards[0]
            case Route.ACTOR:
                raise RaygroveError(
                    f"{type(request).__name__} is for one actor of several: ask that one, which `of` gives for a session"
                )
            case _:
                shard = self._serving(key_of(request))
        return await shard._ask(request, replies, once=once, early=early)


class ShardedSessionRef(_ShardedRef[SessionRef], SessionRef):
    """A client of several Session actors.

    A message about a session goes to the actor that serves it; a message for all of them goes to each. A subscriber is known only
    to the actor to which it has subscribed, so it uses `of` for a client of that one.
    """

    @property
    def shards(self) -> Sequence[SessionRef]:
        """A client of each, in order."""
        return self._shards

    def sharing(self, shard: Shard) -> Sequence[SessionRef]:
        """A client of each that serves any session of a Runner's shard: of as many as there are Runners, one."""
        own = all_shards(len(self._shards))
        return [session for session, each in zip(self._shards, own, strict=True) if may_share(each, shard)]

    def of(self, key: SessionKey) -> SessionRef:
        """A client of the actor that serves a session."""
        return self._serving(key)


class ShardedRunnerRef(_ShardedRef[RunnerRef], RunnerRef):
    """A client of several Runners: a message about a session goes to the Runner of its shard, one for all of them to each."""

    @property
    def count(self) -> int:
        """The number of Runners."""
        return len(self._shards)

    def number_of(self, key: SessionKey) -> int:
        """The number of the one that serves a session, from 0."""
        return shard_of(key, len(self._shards))


def runner_client(shards: Sequence[RunnerRef]) -> RunnerRef:
    """The client of a deployment's Runners, made of a client of each."""
    return shards[0] if len(shards) == 1 else ShardedRunnerRef(shards)
