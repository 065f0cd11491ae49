"""The tables of batches: a row for each map and evaluation, and one for each item that is kept of it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text


def batch_tables(metadata: MetaData, text: Text) -> tuple[Table, Table]:
    """The tables: of batches, and of their items.

    Args:
        metadata: of the session store.
        text: the type of its columns with names.
    """
    batches = Table(
        "raygrove_batches",
        metadata,
        Column("app", text, nullable=False),
        Column("id", text, nullable=False),
        Column("begun_s", Double, nullable=False),
        Column("updated_s", Double, nullable=False),
        Column("raw", LargeBinary, nullable=False),
        PrimaryKeyConstraint("app", "id"),
    )
    batch_items = Table(
        "raygrove_batch_items",
        metadata,
        Column("app", text, nullable=False),
        Column("batch", text, nullable=False),
        Column("position", BigInteger, nullable=False),
        Column("user", text, nullable=False, comment="'' for an item that belongs to nobody"),
        Column("at_s", Double, nullable=False),
        Column("raw", LargeBinary, nullable=False),
        PrimaryKeyConstraint("app", "batch", "position"),
    )
    Index("raygrove_batch_items_of_user", batch_items.c.app, batch_items.c.user)
    return batches, batch_items
