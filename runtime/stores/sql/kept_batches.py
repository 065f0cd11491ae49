"""Batches in the session store: how they are read, and changed in the transaction of a commit."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Connection, Delete, Select, bindparam, delete, select

from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.parts import MAX_BATCHES
from actors.layers.stores.records import ForgetBatches, PutBatch
from actors.messages import codec
from actors.messages.codec import encode
from runtime.stores.sql.database import SqlTransaction
from runtime.stores.sql.schema import batch_items, batches
from runtime.stores.sql.statements import upsert

to_batch = codec.decoder(BatchInfo).decode
to_item = codec.decoder(BatchItem).decode


@cache
def batch_list(*, of_id: bool) -> Select[*tuple[bytes]]:
    """Batches, newest first. Parameters: app, limit; `id` if `of_id`."""
    query = select(batches.c.raw).where(batches.c.app == bindparam("app"))
    if of_id:
        query = query.where(batches.c.id == bindparam("id"))
    return query.order_by(batches.c.begun_s.desc(), batches.c.id.desc()).limit(bindparam("limit"))


ITEMS = (
    select(batch_items.c.raw)
    .where(
        batch_items.c.app == bindparam("app"),
        batch_items.c.batch == bindparam("batch"),
        batch_items.c.position > bindparam("after"),
    )
    .order_by(batch_items.c.position)
    .limit(bindparam("limit"))
)
"""The items that are kept of a batch, by position: app, batch, after, limit."""

_PUT, _PUT_ITEMS = upsert(batches), upsert(batch_items)
_OLDEST_KEPT = (
    select(batches.c.begun_s)
    .where(batches.c.app == bindparam("of_app"))
    .order_by(batches.c.begun_s.desc(), batches.c.id.desc())
    .limit(1)
    .offset(MAX_BATCHES - 1)
    .scalar_subquery()
)
_DROP_FIRST: Delete = delete(batches).where(batches.c.app == bindparam("of_app"), batches.c.begun_s < _OLDEST_KEPT)
_DROP_WITHOUT_BATCH: Delete = delete(batch_items).where(
    batch_items.c.app == bindparam("of_app"),
    batch_items.c.batch.not_in(select(batches.c.id).where(batches.c.app == bindparam("of_app"))),
)


def change_batches(transaction: SqlTransaction, write: PutBatch | ForgetBatches) -> None:
    """Do one write."""
    if isinstance(write, PutBatch):
        _put(transaction, write)
    else:
        _forget(transaction.connection, write)


def _put(transaction: SqlTransaction, write: PutBatch) -> None:
    app, batch = write.key.app, write.batch
    transaction.send(_PUT, [(app, batch.id, batch.begun_s, batch.updated_s, encode(batch))])
    # A statement takes each row once. A later item replaces an earlier one.
    items = {each.position: (app, batch.id, each.position, each.user_id, each.at_s, encode(each)) for each in write.items}
    transaction.send(_PUT_ITEMS, list(items.values()))
    # What a program tells first of a batch is of the time at which it begins.
    if batch.updated_s == batch.begun_s and transaction.connection.execute(_DROP_FIRST, {"of_app": app}).rowcount:
        transaction.connection.execute(_DROP_WITHOUT_BATCH, {"of_app": app})


def _forget(connection: Connection, write: ForgetBatches) -> None:
    items = delete(batch_items).where(batch_items.c.app == write.key.app)
    if write.user is not None:
        items = items.where(batch_items.c.user == write.user)
    if write.before_s is not None:
        items = items.where(batch_items.c.at_s < write.before_s)
    connection.execute(items)
    if write.user is None:
        whole = delete(batches).where(batches.c.app == write.key.app)
        if write.before_s is not None:
            whole = whole.where(batches.c.updated_s < write.before_s)
        if connection.execute(whole).rowcount:
            connection.execute(_DROP_WITHOUT_BATCH, {"of_app": write.key.app})
