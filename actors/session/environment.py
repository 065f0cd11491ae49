"""What a Session actor works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from actors.interfaces.clock import loop_time_s
from actors.interfaces.stores import LogStore, MemoryStore
from actors.messages.config import DEFAULT_LIMITS, Limits
from actors.messages.costs import Price
from actors.messages.event import now_s
from actors.messages.topology import Topology
from actors.refs import SessionRef

FindPeers = Callable[[], Awaitable[Mapping[int, SessionRef]]]
"""Finds clients of the others, by their shards. It raises when one of them is not there yet."""


class StorePlace(NamedTuple):
    """The place of a store in the list of a deployment's stores.

    Attributes:
        number: from 0.
        of: how many there are.
    """

    number: int = 0
    of: int = 1


ONLY_STORE = StorePlace()
"""The place of a store that is the only one."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class SessionEnvironment:
    """The stores, the parent map and the limits of a Session actor.

    Attributes:
        topology: the parent map of the tree with which the deployment was started.
        memory: where memory lasts; None: the app has none.
        store_timeout_s: how long either store may be away before requests that need it fail with StoreUnavailableError.
        limits: sizes that the actor admits, and the room that it has.
        writer: its place in the store, which the process takes that is started in its place; "": none will be.
        keep_calls_s: how long recorded model calls are kept, in seconds; None: as long as their session.
        on_replaced: called when another process has taken that place.
        on_late_write: awaited by what is to be written after the actor has stopped, before it is refused; None: nothing is.
        prices: of models' tokens, by their names or patterns.
        version: the name of that tree.
        place: of the store among several.
        now_s: the time by which schedules go, in seconds since the epoch.
        peers: finds the other Session actors over the same store, which change states that sessions share; None: they cannot be
            reached, and the store is asked for these states for each turn.
        is_successor: the actor takes the place of one that was lost.
        looks_again: requests that wait for news, or for what is due, look again from time to time: the machine's clock may be
            set, and those that wait may be gone. With the clock of a test each look would be a step.
    """

    store: LogStore
    topology: Topology
    memory: MemoryStore | None = None
    store_timeout_s: float = 30.0
    limits: Limits = DEFAULT_LIMITS
    clock: Callable[[], float] = loop_time_s
    writer: str = ""
    keep_calls_s: float | None = None
    on_replaced: Callable[[], None] = _nothing
    on_late_write: Callable[[], Awaitable[None]] | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    version: str = ""
    place: StorePlace = ONLY_STORE
    now_s: Callable[[], float] = now_s
    peers: FindPeers | None = None
    is_successor: bool = False
    looks_again: bool = True
