"""The Session actors of a deployment, and its stores: they have to belong together, and users are found when the list grows."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from actors.layers.placing.client import StoresSessionRef
from actors.layers.placing.messages import GetStoreSeat, ListArrivals, ListStoreUsers, PlaceUsers, TakeStoreSeat
from actors.layers.placing.rules import AllSeated, Growth, home_of, seating, user_digest
from actors.layers.stores.records import FoundStore, StoreSeat
from actors.messages.session import Shard
from actors.refs import SessionRef
from actors.rules.sharding import all_shards, shard_name
from actors.session.environment import StorePlace


class SessionActorPlace(NamedTuple):
    """What one Session actor serves.

    Attributes:
        name: of the actor within its app.
        store: its store among those of the deployment.
        shard: its sessions among those of this store.
    """

    name: str
    store: StorePlace
    shard: Shard


def session_places(stores: int, shards: int) -> list[SessionActorPlace]:
    """The Session actors of a deployment, those of the first store first.

    Args:
        stores: how many stores there are.
        shards: how many Session actors share the sessions of each.
    """
    names = session_names(stores, shards)
    places = [(StorePlace(number, stores), shard) for number in range(stores) for shard in all_shards(shards)]
    return [SessionActorPlace(name, *place) for name, place in zip(names, places, strict=True)]


def session_names(stores: int, shards: int) -> list[str]:
    """Their names within the app, in the same order."""
    return [shard_name("session", shard) for shard in all_shards(stores * shards)]


PAGE = 1_000
"""Users who are looked at, or noted, at a time."""


async def seat_stores(app: str, session: SessionRef) -> None:
    """Check that the stores are those of the app, in their order, and let new ones join.

    A list that has grown is the list only when its first store says so; what is interrupted is done again by the next start.

    Raises:
        StoreError: they are not, or a store failed.
    """
    stores = session.stores
    decided = seating(app, await _found(app, stores))
    if isinstance(decided, AllSeated):
        if isinstance(session, StoresSessionRef):
            await _settle_moves(app, session)
        return
    await _keep_users(app, stores, decided)
    family = decided.family or secrets.token_hex(8)
    for number in reversed(range(len(stores))):
        await stores[number].shards[0].ask(TakeStoreSeat(app=app, seat=StoreSeat(family, number, len(stores))))
    # Two names of one database are found out now.
    seating(app, await _found(app, stores))


async def _settle_moves(app: str, session: StoresSessionRef) -> None:
    """Bring moves of users to their ends that were interrupted: no program is at work on one."""
    for number, store in enumerate(session.stores):
        for arrival in (await store.shards[0].ask(ListArrivals(app=app))).users:
            await session.settle_move(app, arrival.user, number, drops=True)


async def _found(app: str, stores: Sequence[SessionRef]) -> list[FoundStore]:
    replies = await asyncio.gather(*(store.shards[0].ask(GetStoreSeat(app=app)) for store in stores))
    return [reply.store for reply in replies]


async def _keep_users(app: str, stores: Sequence[SessionRef], growth: Growth) -> None:
    """Note in the new stores the users that are at home there from now on, and are in one of the others."""
    for number, store in enumerate(stores[: growth.before]):
        async for users in _users(app, store):
            at_home: dict[int, list[bytes]] = {}
            for user in users:
                home = home_of(app, user, len(stores))
                if home >= growth.before:
                    at_home.setdefault(home, []).append(user_digest(app, user))
            for home, digests in at_home.items():
                note = PlaceUsers(app=app, digests=digests, store=number)
                await asyncio.gather(*(shard.ask(note) for shard in stores[home].shards))


async def _users(app: str, store: SessionRef) -> AsyncIterator[Sequence[str]]:
    after = ""
    while users := (await store.shards[0].ask(ListStoreUsers(app=app, after=after, limit=PAGE))).users:
        yield users
        after = users[-1]
