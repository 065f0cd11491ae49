"""The state of apps and users: one object in memory for all sessions that share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from actors.errors import StoreError
from actors.interfaces.stores import ReadsManyStates
from actors.messages.json_types import JsonMapping
from actors.messages.session import SessionKey
from actors.session.store.access import StoreAccess

StoredStates = tuple[JsonMapping, JsonMapping]
"""The state of an app and of a user, as the store has them."""


class SharedState(dict[str, Any]):
    """The state of an app, or of a user, by keys without prefix.

    Attributes:
        is_stale: it may have values that were never stored; it has to be read again before it is used.
    """

    __slots__ = ("__weakref__", "is_stale")

    def __init__(self) -> None:
        super().__init__()
        self.is_stale = False


class SharedStates:
    """The shared states in memory. They leave it with the last log that has them.

    Args:
        access: the store.
        has_other_writers: other Session actors change these states in the store, too.
    """

    def __init__(self, access: StoreAccess, *, has_other_writers: bool = False) -> None:
        self._access = access
        self.has_other_writers = has_other_writers
        self._states: WeakValueDictionary[SessionKey, SharedState] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._states)

    async def of(self, key: SessionKey, *, again: bool = False) -> tuple[SharedState, SharedState]:
        """The state of a session's app, and of its user.

        Args:
            again: read them from the store, also if they are in memory.
        """
        known = None if again else self.in_memory(key)
        if known is not None:
            return known
        return self.as_read(key, await self._access.read(self._access.store.state, key.app, key.user), again=again)

    def in_memory(self, key: SessionKey) -> tuple[SharedState, SharedState] | None:
        """The same without reading the store; None unless both are in memory and as the store has them."""
        of_app, of_user = (self._states.get(scope) for scope in _scopes(key))
        if of_app is None or of_user is None or of_app.is_stale or of_user.is_stale:
            return None
        return of_app, of_user

    def as_read(self, key: SessionKey, found: StoredStates, *, again: bool = False) -> tuple[SharedState, SharedState]:
        """The same, of what was just read from the store: see `of`. Nothing may be awaited between the read and this."""
        of_app, of_user = zip(_scopes(key), found, strict=True)
        return self._refreshed(*of_app, again), self._refreshed(*of_user, again)

    async def of_users(self, app: str, users: Iterable[str]) -> dict[str, tuple[SharedState, SharedState]]:
        """The states of an app and of many of its users, by user, with one read of the store. See `of`."""
        known = {user: None if self.has_other_writers else self.in_memory(SessionKey(app, user, "")) for user in users}
        unknown = [user for user, states in known.items() if states is None]
        if unknown:
            found = await self._access.read(self._read_many, app, unknown)
            for user, stored in zip(unknown, found, strict=True):
                known[user] = self.as_read(SessionKey(app, user, ""), stored, again=self.has_other_writers)
        return {user: states for user, states in known.items() if states is not None}

    def _read_many(self, app: str, users: Sequence[str]) -> list[StoredStates]:
        """In the store's thread: the states of users, in their order."""
        store = self._access.store
        if not isinstance(store, ReadsManyStates):
            return [store.state(app, user) for user in users]
        of_app, by_user = store.states(app, users)
        return [(of_app, by_user.get(user, {})) for user in users]

    def mark_stale(self, scope: SessionKey) -> None:
        """Have the state under a key read again before it is used."""
        if (state := self._states.get(scope)) is not None:
            state.is_stale = True

    async def reread(self, key: SessionKey) -> None:
        """Read the states again because a change was not stored. Raises StoreError; they are stale then."""
        try:
            await self.of(key, again=True)
        except StoreError:
            for scope in _scopes(key):
                self.mark_stale(scope)
            raise

    def _refreshed(self, scope: SessionKey, stored: JsonMapping, again: bool) -> SharedState:
        """A state as it was read; one that another request has read meanwhile may have changed since, and stays as it is."""
        known = self._states.get(scope)
        if known is None or again or known.is_stale:
            known = self._states.setdefault(scope, SharedState())
            known.clear()
            known.update(stored)
            known.is_stale = False
            # Changes that are about to be written must not get lost from memory.
            self._access.commits.pending.bring_up_to_date(scope, known)
        return known


def _scopes(key: SessionKey) -> tuple[SessionKey, SessionKey]:
    """The keys under which the states of an app and of a user are kept."""
    return SessionKey(key.app, "", ""), SessionKey(key.app, key.user, "")
