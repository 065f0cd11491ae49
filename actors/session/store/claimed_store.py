"""A Session actor's place in its store, which the one that is started in its place takes from it."""

from __future__ import annotations

from contextlib import suppress

from actors.errors import StoreError
from actors.interfaces.stores import FencesWriters, SessionStore


class ClaimedStore:
    """Opens a session store and takes a writer's place in it; closes it and leaves the place.

    A process lives on for a moment, or for longer behind a cut cable, when Ray has given its node up and has started another one
    in its place. Where a store fences writers, nothing that it commits afterwards is stored.

    Args:
        store: used in one thread.
        writer: the place; "": none is taken.

    Attributes:
        takes_place: False opens the store only.
    """

    def __init__(self, store: SessionStore, writer: str) -> None:
        self._store = store
        self.writer = writer
        self.takes_place = True
        self._fence = store if writer and isinstance(store, FencesWriters) else None

    def __str__(self) -> str:
        return str(self._store)

    def open(self) -> None:
        """Open the store. Raises what `SessionStore.open` and `FencesWriters.claim` raise."""
        self._store.open()
        if not self.takes_place:
            return
        try:
            self.claim()
        except BaseException:
            self._store.close()
            raise

    def claim(self) -> None:
        """Take the place, also once more. Raises what `FencesWriters.claim` raises."""
        if self._fence is not None:
            self._fence.claim(self.writer)

    def close(self) -> None:
        """Close the store."""
        if self._fence is not None:
            # What is left of the place does no harm.
            with suppress(StoreError):
                self._fence.give_up_claim()
        self._store.close()
