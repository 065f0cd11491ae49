"""The state of apps and users: one object in memory for all sessions that share it."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from actors.errors import StoreError
from actors.messages.json_types import JsonMapping
from actors.messages.session import SessionKey
from actors.session.store.access import StoreAccess


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
        scopes = _scopes(key)
        of_app, of_user = (self._states.get(scope) for scope in scopes)
        if again or of_app is None or of_user is None or of_app.is_stale or of_user.is_stale:
            found = await self._access.read(self._access.store.state, key.app, key.user)
            of_app, of_user = (self._refreshed(scope, stored, again) for scope, stored in zip(scopes, found, strict=True))
        return of_app, of_user

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
