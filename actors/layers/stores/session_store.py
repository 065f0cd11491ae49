"""A session store with all that features keep in it."""

from __future__ import annotations

from abc import ABC
from typing import cast

from actors.interfaces.stores import LogStore
from actors.layers.stores.parts import OperationsStore, PlacedStore
from actors.session.store.access import StoreAccess


class SessionStore(LogStore, PlacedStore, OperationsStore, ABC):
    """Stores the logs and states of sessions, and what features keep.

    A store of one's own inherits from this class and implements the abstract methods. Each of the others works without being
    overridden, or raises a StoreError that names it. A store without recorded model calls, schedules or batches raises StoreError
    from `commit` for `AddSchedule` and `PutBatch`, and ignores `AddModelCall` and all other writes about these three.
    """


def store_of(access: StoreAccess) -> SessionStore:
    """The store of a Session actor, for a service. Deployments have no other stores than these."""
    return cast(SessionStore, access.store)
