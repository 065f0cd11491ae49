"""Reads of sessions that are not in memory, together with the states that they share; those of new ones in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.messages.session import SessionKey
from actors.session.log.reader import LogReader, StoredSession, stored_session
from actors.session.log.shared_state import SharedState, SharedStates, StatesReading, StoredStates
from actors.session.store.access import StoreAccess
from actors.session.store.grouped_reads import GroupedReads

States = tuple[SharedState, SharedState]
"""The state of a session's app, and of its user."""


class SessionReads:
    """Reads sessions."""

    def __init__(self, access: StoreAccess, reader: LogReader, shared: SharedStates) -> None:
        self._access = access
        self._reader = reader
        self._shared = shared
        self._new = GroupedReads(self._read_new)

    async def one(self, key: SessionKey, *, again: bool, is_new: bool = False) -> tuple[StoredSession, States]:
        """A session, and the states that it shares. Raises StoreError.

        Args:
            again: these are read anew.
            is_new: these are read as they are now: see `new`.
        """
        known = self._shared.current if is_new else self._shared.in_memory
        shared = None if again else known(key)
        if shared is not None:
            return await self._reader.session(key, shared=None), shared
        reading = self._shared.reading(key.app, (key.user,), again=again)
        found = await self._reader.session(key, shared=reading)
        assert found.shared is not None
        states = self._shared.as_read(reading, found.shared)
        return found, (states[""], states[key.user])

    async def new(self, key: SessionKey) -> tuple[StoredSession, States]:
        """The same of a session that may be new: it has the states as they are now, with no other look at the store.

        Many that are asked for at once are read in one go. Raises StoreError.
        """
        return await self._new.of(key)

    async def _read_new(self, keys: Sequence[SessionKey]) -> Mapping[SessionKey, tuple[StoredSession, States]]:
        if len(keys) == 1:
            [key] = keys
            return {key: await self.one(key, again=False, is_new=True)}
        found: dict[SessionKey, tuple[StoredSession, States]] = {}
        for app in dict.fromkeys(key.app for key in keys):
            of_app = [key for key in keys if key.app == app]
            known = {key: self._shared.current(key) for key in of_app}
            unknown = {key.user for key, states in known.items() if states is None}
            reading = self._shared.reading(app, unknown) if unknown else None
            stored, read = await self._access.read(self._stored, of_app, reading)
            states = self._shared.as_read(reading, read) if reading is not None else {}
            found.update((key, (stored[key], known[key] or (states[""], states[key.user]))) for key in of_app)
        return found

    def _stored(
        self, keys: Sequence[SessionKey], shared: StatesReading | None
    ) -> tuple[Mapping[SessionKey, StoredSession], StoredStates]:
        """In the store's thread."""
        store = self._access.store
        found = {key: stored_session(store, key) for key in store.may_exist(keys)}
        missing = StoredSession(None, None, None)
        return {key: found.get(key, missing) for key in keys}, shared() if shared is not None else {}
