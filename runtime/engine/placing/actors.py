"""Which Session actors a deployment has, and what each of them serves."""

from __future__ import annotations

from typing import NamedTuple

from actors.messages.session import Shard
from actors.rules.capacity.sharding import all_shards, shard_name
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
