"""A Session actor's place in its store: claimed, renewed, and taken by the one that is started in its place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from actors.errors import StoreError, StoreRevertedError, WriterReplacedError
from actors.interfaces.stores import LogStore
from actors.session.store.store_thread import StoreThread

logger = logging.getLogger(__name__)


class ClaimRenewal:
    """Renews the claim of a store for as long as the store is in use. A store whose claims do not run out has nothing to renew.

    Args:
        is_claimed: it has the place of a writer.
        on_replaced: called when another process has taken the place.
        on_reverted: called when the store has gone back to an older copy of itself.
    """

    def __init__(
        self,
        store: LogStore,
        is_claimed: bool,
        thread: StoreThread,
        on_replaced: Callable[[], None],
        on_reverted: Callable[[], None],
    ) -> None:
        self._on_reverted = on_reverted
        self._store = store
        self._is_claimed = is_claimed
        self._thread = thread
        self._on_replaced = on_replaced
        self._task: asyncio.Task[None] | None = None

    def begin_renewal(self) -> None:
        """Renew the claim from now on, if it has to be. The store is open."""
        if self._task is None and self._store.renew_s is not None:
            self._task = asyncio.create_task(self._renew(self._store.renew_s))

    async def end_renewal(self) -> None:
        """Renew it no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def renew_once(self) -> bool:
        """Renew the claim now. Returns whether it is this process's; False also of a store without claims."""
        if not self._is_claimed:
            return False
        try:
            await self._thread.attempt(self._store.renew_claim)
        except WriterReplacedError:
            self._is_claimed = False
            self._on_replaced()
        except StoreRevertedError:
            self._on_reverted()
        except StoreError:
            # Requests tell of a store that is away.
            logger.debug("the claim could not be renewed", exc_info=True)
        else:
            return True
        return False

    async def _renew(self, renew_s: float) -> None:
        while self._is_claimed:
            await asyncio.sleep(renew_s)
            await self.renew_once()


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

    def __init__(self, store: LogStore, writer: str) -> None:
        self._store = store
        self.writer = writer
        self.takes_place = True

    def __str__(self) -> str:
        return str(self._store)

    def open(self) -> None:
        """Open the store. Raises what `LogStore.open` and `LogStore.claim` raise."""
        self._store.open()
        if not self.takes_place:
            return
        try:
            self.claim()
        except BaseException:
            self._store.close()
            raise

    def claim(self) -> None:
        """Take the place, also once more. Raises what `LogStore.claim` raises."""
        if self.writer:
            self._store.claim(self.writer)

    def close(self) -> None:
        """Close the store."""
        if self.writer:
            # What is left of the place does no harm.
            with suppress(StoreError):
                self._store.give_up_claim()
        self._store.close()
