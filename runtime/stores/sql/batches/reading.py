"""Reads batches."""

from __future__ import annotations

import msgspec
from sqlalchemy import select

from actors.messages.operating.batch import BatchInfo, BatchItem
from runtime.stores.sql.schema import batch_items, batches
from runtime.stores.sql.writers import FencedSqlStore

_decode_batch = msgspec.msgpack.Decoder(BatchInfo).decode
_decode_item = msgspec.msgpack.Decoder(BatchItem).decode


class BatchReadingStore(FencedSqlStore):
    """A store on an SQL database that reads batches."""

    def batches(self, app: str, batch_id: str = "", *, limit: int) -> list[BatchInfo]:
        """Batches of an app, the one that began last first."""
        query = select(batches.c.raw).where(batches.c.app == app)
        if batch_id:
            query = query.where(batches.c.id == batch_id)
        query = query.order_by(batches.c.begun_s.desc(), batches.c.id.desc()).limit(limit)
        return [_decode_batch(bytes(raw)) for (raw,) in self._database.rows(query, {})]

    def batch_items(self, app: str, batch_id: str, *, after: int, limit: int) -> list[BatchItem]:
        """The items that are kept of a batch, by position."""
        here = (batch_items.c.app == app, batch_items.c.batch == batch_id, batch_items.c.position > after)
        query = select(batch_items.c.raw).where(*here).order_by(batch_items.c.position).limit(limit)
        return [_decode_item(bytes(raw)) for (raw,) in self._database.rows(query, {})]
