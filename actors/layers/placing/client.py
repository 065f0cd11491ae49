"""Clients of several Session actors, or of several Runners: of shards, and of stores each of which has the data of some users.

Rules of this file:

- A client of several is used as if there were one actor. Where there is only one, its plain client is used, at no extra cost.
- A message about a user goes to the store in which the user is: at home (see `home_of`), unless an answer has said otherwise. It
  is sent again where that says so, but for messages after which a driver polls the actor that has taken them: the driver sends
  those again itself, after it has chosen another subscriber.
- A list over all users is put together from those of all stores, page by page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from actors.errors import RaygroveError, UserArrivingError, UserElsewhereError
from actors.interfaces.transport import EarlyReply
from actors.layers.placing.messages import AdmitUser, DropArrival, GetPlacement, ListArrivals
from actors.layers.placing.rules import home_of
from actors.layers.sharing import may_share
from actors.messages import protocol as p
from actors.messages.protocol.base import ABOUT_USERS, Route, key_of, user_of
from actors.messages.session import SessionKey, Shard
from actors.refs import Ref, RunnerRef, SessionRef
from actors.rules.eviction import LruDict
from actors.rules.sharding import all_shards, shard_of

MOST_KNOWN = 10_000
"""Users of whom a process remembers the store."""

MOST_HOPS = 16
"""Moves of one user that a message may meet before it is given up, beside the notes that lead from store to store."""

SENT_BY_DRIVERS = (p.FindTurn, p.OpenTurn, p.Subscribe)
"""Messages of which the driver has to know which store has taken them: it polls there."""

M = TypeVar("M", bound=p.Message)
T = TypeVar("T")
AnyRef = TypeVar("AnyRef", bound=Ref)


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


class StoresSessionRef(ShardedSessionRef):
    """A client of the Session actors of several stores.

    Args:
        stores: a client of those of each store, in order.
    """

    def __init__(self, stores: Sequence[SessionRef]) -> None:
        super().__init__([shard for store in stores for shard in store.shards])
        self._stores = tuple(stores)
        self._known: LruDict[tuple[str, str], int] = LruDict(MOST_KNOWN)

    @property
    def stores(self) -> Sequence[SessionRef]:
        """A client of the Session actors of each store, in order."""
        return self._stores

    def sharing(self, shard: Shard) -> Sequence[SessionRef]:
        """A client of each Session actor, of any store, that serves any session of a Runner's shard."""
        return [session for store in self._stores for session in store.sharing(shard)]

    def of(self, key: SessionKey) -> SessionRef:
        """A client of the Session actor that serves a session, as far as this process knows."""
        return self._stores[self.store_of(key.app, key.user)].of(key)

    def store_of(self, app: str, user: str) -> int:
        """The number of the store in which a user is, as far as this process knows."""
        store = self._known.get((app, user))
        if store is None:
            store = self._known[app, user] = home_of(app, user, len(self._stores))
        return store

    def note_store(self, app: str, user: str, store: int) -> None:
        """Go by what an answer has said: that a user is in a store."""
        # What is wrong ends in an error of the next request that is sent from store to store.
        self._known[app, user] = store % len(self._stores)

    async def _ask(
        self, request: p.Request[Any], replies: tuple[type[M], ...], *, once: bool = False, early: EarlyReply | None = None
    ) -> M:
        if request.route not in ABOUT_USERS:
            return await super()._ask(request, replies, once=once, early=early)
        owner = user_of(request)
        if owner is None:
            asked = (store._ask(request, replies, once=once, early=early) for store in self._stores)
            return cast(M, request.joined(await asyncio.gather(*asked)))
        if isinstance(request, SENT_BY_DRIVERS):
            try:
                return await self._stores[self.store_of(*owner)]._ask(request, replies, once=once, early=early)
            except UserElsewhereError as error:
                self.note_store(*owner, error.store)
                raise
            except UserArrivingError as error:
                await self.settle_move(*owner, error.store)
                raise UserElsewhereError(owner[1], self.store_of(*owner)) from error
        return await self.at_store(owner, lambda store: store._ask(request, replies, once=once, early=early))

    async def at_store(self, owner: tuple[str, str], ask: Callable[[SessionRef], Awaitable[T]]) -> T:
        """Ask the store in which a user, of an app, is. Raises what `ask` raises."""
        for _ in range(MOST_HOPS + len(self._stores)):
            try:
                return await ask(self._stores[self.store_of(*owner)])
            except UserElsewhereError as error:
                self.note_store(*owner, error.store)
            except UserArrivingError as error:
                await self.settle_move(*owner, error.store)
        raise RaygroveError(f"the stores of this deployment do not agree which of them has user {owner[1]!r}")

    async def settle_move(self, app: str, user: str, to: int, *, drops: bool = False) -> None:
        """Find where a user is of whom a store keeps parts, and have that store admit the user if the other one says so.

        Args:
            drops: the parts are forgotten also if the user has not left the other store: no program moves the user any more.

        Raises:
            StoreError: a store failed.
        """
        target = self._stores[to].shards[0]
        for arrival in (await target.ask(ListArrivals(app=app))).users:
            if arrival.user == user:
                source = self._stores[arrival.source].shards[0]
                note = await source.ask(GetPlacement(app=app, user=user))
                # By this very move: the user may have left that store before, and been elsewhere since.
                if note.store == to and note.token in (arrival.token, None):
                    await target.ask(AdmitUser(app=app, user=user, token=arrival.token))
                else:
                    # Without a note the move may be under way. With that of another one it has ended.
                    if drops or note.store is not None:
                        await target.ask(DropArrival(app=app, user=user, token=arrival.token))
                    self.note_store(app, user, arrival.source)
                    return
        self.note_store(app, user, to)


def stores_client(shards: Sequence[SessionRef], stores: int) -> SessionRef:
    """The client of a deployment's Session actors.

    Args:
        shards: a client of each, those of the first store first, as many of each store.
    """
    each = len(shards) // stores
    groups = [shards[first : first + each] for first in range(0, len(shards), each)]
    clients = [group[0] if len(group) == 1 else ShardedSessionRef(group) for group in groups]
    return clients[0] if len(clients) == 1 else StoresSessionRef(clients)


def runner_client(shards: Sequence[RunnerRef]) -> RunnerRef:
    """The client of a deployment's Runners, made of a client of each."""
    return shards[0] if len(shards) == 1 else ShardedRunnerRef(shards)
