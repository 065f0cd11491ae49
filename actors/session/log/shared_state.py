"""The state of apps and users: one object in memory for all sessions that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from actors.errors import StoreError
from actors.interfaces.stores import LogStore, VersionedState
from actors.messages.session import SessionKey
from actors.session.store.access import StoreAccess
from actors.session.store.grouped_reads import GroupedReads

StoredStates = Mapping[str, VersionedState]
"""States of an app, by "", and of its users, as the store has them: those that were asked for and are in another version."""


class SharedState(dict[str, Any]):
    """The state of an app, or of a user, by keys without prefix.

    Attributes:
        version: in which it was read last; -1: it was not read yet.
        is_stale: it may have values that were never stored; it has to be read again before it is used.
        is_unchecked: the store has gone back, and it was not read since: sessions that are read have it read again.
        era: of the watch in which it was read, if no change was heard of since; None: it may have been changed.
    """

    __slots__ = ("__weakref__", "era", "is_stale", "is_unchecked", "version")

    def __init__(self) -> None:
        super().__init__()
        self.version = -1
        self.is_stale = self.is_unchecked = False
        self.era: int | None = None

    @property
    def is_void(self) -> bool:
        """Whether it has to be read again by what reads a session."""
        return self.is_stale or self.is_unchecked


class StatesReading:
    """A read of an app's state and of those of some users, for the store's thread. It holds those in memory until it is taken in.

    Args:
        known: by user, those that may stay as they are if the store has them in the same version.
        again: those in memory are replaced, too.
        era: of the watch when it was made.

    Attributes:
        changed: the keys of states that were changed since it was made, as far as this actor has heard of it.
    """

    def __init__(
        self,
        store: LogStore,
        app: str,
        known: Mapping[str, SharedState | None],
        *,
        again: bool,
        era: int | None = None,
    ) -> None:
        self.era = era
        self.changed: set[SessionKey] = set()
        self.app = app
        self.known = known
        self.again = again
        self._store = store

    def __call__(self) -> StoredStates:
        """Read them, in the store's thread. Raises StoreError."""
        return self._store.changed_states(self.app, {user: state.version if state else -1 for user, state in self.known.items()})


class SharedStates:
    """The shared states in memory. They leave it with the last log that has them.

    Args:
        has_other_writers: other Session actors change these states in the store, too.

    Attributes:
        era: names the time in which this actor hears of all changes that others make; None: it may not hear of one now.
        on_change: called with the key of a state that was read anew.
    """

    def __init__(self, access: StoreAccess, *, has_other_writers: bool = False) -> None:
        self._access = access
        self.has_other_writers = has_other_writers
        self.on_change: Callable[[SessionKey], None] = lambda scope: None
        self.era: Callable[[], int | None] = lambda: None
        self._readings: WeakSet[StatesReading] = WeakSet()
        self._states: WeakValueDictionary[SessionKey, SharedState] = WeakValueDictionary()
        self._refreshes = GroupedReads(self._refresh_all)

    def __len__(self) -> int:
        return len(self._states)

    def in_memory(self, key: SessionKey) -> tuple[SharedState, SharedState] | None:
        """The state of a session's app, and of its user; None unless both are in memory and as the store has them."""
        of_app, of_user = (self._states.get(scope) for scope in _scopes(key))
        if of_app is None or of_user is None or of_app.is_void or of_user.is_void:
            return None
        return of_app, of_user

    def current(self, key: SessionKey) -> tuple[SharedState, SharedState] | None:
        """The same, and None unless they have what other Session actors have written before, too."""
        known = self.in_memory(key)
        if known is None or not self.has_other_writers:
            return known
        era = self.era()
        return known if era is not None and known[0].era == known[1].era == era else None

    def note_changed(self, scopes: Iterable[SessionKey] | None) -> None:
        """Another Session actor has changed states, in the store: they are read before they are used again; None: any may be."""
        changed = list(self._states if scopes is None else scopes)
        for scope in changed:
            if (state := self._states.get(scope)) is not None:
                state.era = None
        for reading in self._readings:
            if scopes is None:
                reading.era = None
            else:
                reading.changed.update(changed)

    def note_reverted(self) -> None:
        """The store has gone back to an older copy of itself."""
        self.note_changed(None)
        for state in self._states.values():
            state.is_unchecked = True

    def reading(self, app: str, users: Iterable[str], *, again: bool = False) -> StatesReading:
        """A read of the app's state and of those of some users, for the store's thread.

        Args:
            again: also of what is in memory, and whatever its version is.
        """
        known = {user: self._states.get(_scope(app, user)) for user in ("", *users)}
        for user, state in known.items():
            if again or (state is not None and state.is_void):
                known[user] = None
        others = self.has_other_writers
        era = self.era() if others else None
        reading = StatesReading(self._access.store, app, known, again=again or others, era=era)
        if era is not None:
            self._readings.add(reading)
        return reading

    def as_read(self, reading: StatesReading, found: StoredStates) -> dict[str, SharedState]:
        """All states that were asked for, by user, the app's by "", as they were just read from the store.

        Nothing may be awaited between the read and this.
        """
        states = {user: self._refreshed(_scope(reading.app, user), found.get(user), reading.again) for user in reading.known}
        if reading.era is not None:
            self._readings.discard(reading)
            for user, state in states.items():
                state.era = reading.era if _scope(reading.app, user) not in reading.changed else None
        return states

    async def refresh(self, key: SessionKey) -> None:
        """Bring both up to date with what other Session actors have written before this was called.

        Sessions that ask while the store is being read share the next read. Raises StoreError.
        """
        if self.has_other_writers and self.current(key) is None:
            await self._refreshes.of(_scope(key.app, key.user))

    async def _refresh_all(self, scopes: Sequence[SessionKey]) -> Mapping[SessionKey, None]:
        for app in dict.fromkeys(scope.app for scope in scopes):
            await self._read(app, [scope.user for scope in scopes if scope.app == app])
        return dict.fromkeys(scopes)

    async def _read(self, app: str, users: Iterable[str], *, again: bool = False) -> dict[str, SharedState]:
        reading = self.reading(app, users, again=again)
        return self.as_read(reading, await self._access.read(reading))

    async def of_users(self, app: str, users: Iterable[str]) -> dict[str, tuple[SharedState, SharedState]]:
        """The states of an app and of many of its users, by user, with one read of the store."""
        known = {user: None if self.has_other_writers else self.in_memory(SessionKey(app, user, "")) for user in users}
        unknown = [user for user, states in known.items() if states is None]
        if unknown:
            states = await self._read(app, unknown)
            known.update((user, (states[""], states[user])) for user in unknown)
        return {user: states for user, states in known.items() if states is not None}

    def mark_stale(self, scope: SessionKey) -> None:
        """Have the state under a key read again before it is used."""
        if (state := self._states.get(scope)) is not None:
            state.is_stale = True

    async def reread(self, key: SessionKey) -> None:
        """Read the states again because a change was not stored. Raises StoreError; they are stale then."""
        try:
            await self._read(key.app, (key.user,), again=True)
        except StoreError:
            for scope in _scopes(key):
                self.mark_stale(scope)
            raise

    def _refreshed(self, scope: SessionKey, stored: VersionedState | None, again: bool) -> SharedState:
        """A state as it was read. Without other writers, one that another request has read meanwhile stays as it is."""
        known = self._states.get(scope)
        if stored is None:
            assert known is not None, "a reading holds those that it may find unchanged"
            return known
        if known is None or again or known.is_void:
            known = self._states.setdefault(scope, SharedState())
            known.clear()
            known.update(stored.values)
            known.version = stored.version
            known.is_stale = known.is_unchecked = False
            # Changes that are about to be written must not get lost from memory.
            self._access.commits.pending.bring_up_to_date(scope, known)
            self.on_change(scope)
        return known


def _scope(app: str, user: str) -> SessionKey:
    """The key under which the state of a user, or with "" of the app, is kept."""
    return SessionKey(app, user, "")


def _scopes(key: SessionKey) -> tuple[SessionKey, SessionKey]:
    """The keys under which the states of an app and of a user are kept."""
    return _scope(key.app, ""), _scope(key.app, key.user)
