"""Batches: the program that runs one tells how far it is, and others read it. Driver to Session actor."""

from __future__ import annotations

from collections.abc import Sequence

from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.messages.protocol.base import Ack, Message
from actors.messages.protocol.request import Lane, Request, Route


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
