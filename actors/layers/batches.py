"""Batches: programs store how far their maps and evaluations are, and others read it.

Rules of this file:

- Items name users. While all data of a user is being deleted, what names the user waits, as a turn of the user does.
- A batch is of no session, and no turn waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from actors.actor import Handlers
from actors.errors import UserArrivingError, UserElsewhereError
from actors.interfaces.stores import Write
from actors.layers.holds import UserHolds
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.parts import store_of
from actors.layers.stores.records import ForgetBatches, PutBatch
from actors.messages import protocol as p
from actors.messages.protocol.base import Ack, Lane, Message, Request, Route
from actors.messages.session import SessionKey
from actors.session.service import SessionParts, SessionService


class SaveBatch(Request[Ack], frozen=True, kw_only=True):
    """Store how far a batch is, in place of what was stored of it, with more of its items.

    Attributes:
        items: by position; those that are there already are stored again.
    """

    route = Route.FIRST
    lane = Lane.DIRECT

    app: str
    batch: BatchInfo
    items: Sequence[BatchItem] = ()


class BatchesReply(Message, frozen=True, kw_only=True):
    """Batches as they are stored."""

    batches: Sequence[BatchInfo] = ()


class ListBatches(Request[BatchesReply], frozen=True, kw_only=True):
    """List batches, newest first.

    Attributes:
        batch: only that of this id; "": all.
        limit: at most so many.
    """

    route = Route.FIRST
    lane = Lane.QUERY

    app: str
    batch: str = ""
    limit: int


class BatchItemsReply(Message, frozen=True, kw_only=True):
    """Items as they are stored."""

    items: Sequence[BatchItem] = ()


class ListBatchItems(Request[BatchItemsReply], frozen=True, kw_only=True):
    """List the items that are kept of a batch, by position.

    Attributes:
        after: only those after this position; -1: all.
        limit: at most so many.
    """

    route = Route.FIRST
    lane = Lane.QUERY

    app: str
    batch: str
    after: int = -1
    limit: int


class KeptBatches(SessionService):
    """Answers the requests about batches."""

    def __init__(self, parts: SessionParts, user_holds: UserHolds) -> None:
        self._access = parts.access
        self._store = store_of(parts.access)
        self._user_holds = user_holds

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            SaveBatch: self.save_batch,
            ListBatches: self.list_batches,
            ListBatchItems: self.list_items,
        }

    async def save_batch(self, message: SaveBatch) -> p.Ack:
        """Store how far a batch is. Raises StoreError."""
        users = {SessionKey(message.app, item.user_id, "") for item in message.items if item.user_id}
        # From the last look at the holds to the write nothing is awaited.
        while held := [key for key in users if self._user_holds.has(key)]:
            # Of several stores the first one has the batches, wherever a user is moved.
            with suppress(UserElsewhereError, UserArrivingError):
                await self._user_holds.passed(held[0])
        key = _key(message.app)
        self._access.commits.clear_failure(key)
        with self._user_holds.writing(*users):
            await self._access.commits.submit(key, [PutBatch(key, message.batch, message.items)])
        return p.Ack()

    async def list_batches(self, message: ListBatches) -> BatchesReply:
        """List batches. Raises StoreError."""
        return BatchesReply(
            batches=await self._access.read(lambda: self._store.batches(message.app, message.batch, limit=message.limit))
        )

    async def list_items(self, message: ListBatchItems) -> BatchItemsReply:
        """List what is kept of a batch's items. Raises StoreError."""
        app, batch = message.app, message.batch
        return BatchItemsReply(
            items=await self._access.read(lambda: self._store.batch_items(app, batch, after=message.after, limit=message.limit))
        )

    def forgetting_user(self, app: str, user: str) -> list[Write]:
        """The write that deletes all items of a user."""
        return [ForgetBatches(_key(app), user=user)]

    async def forget_old(self, app: str, user: str | None, before_s: float) -> None:
        """Delete what was told of before a time: items of a user, or with None all items and batches. Raises StoreError."""
        key = _key(app)
        self._access.commits.clear_failure(key)
        await self._access.commits.submit(key, [ForgetBatches(key, user=user, before_s=before_s)])


def _key(app: str) -> SessionKey:
    """Under which the writes of batches come: of no session, and of no state."""
    return SessionKey(app, "", "batches")
