"""The tables of a store that is one of several: its place, users who are in another one, and users who are being moved."""

from __future__ import annotations

from sqlalchemy import Column, Integer, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy.types import TypeEngine


def placing_tables(metadata: MetaData, text: TypeEngine[str] | Text) -> tuple[Table, Table, Table]:
    """The tables: of seats, of placements, and of what has arrived of users that are still elsewhere.

    Args:
        metadata: of the session store.
        text: the type of its columns with names.
    """
    seats = Table(
        "raygrove_seats",
        metadata,
        Column("app", text, primary_key=True),
        Column("family", text, nullable=False),
        Column("number", Integer, nullable=False),
        Column("stores", Integer, nullable=False),
    )
    placements = Table(
        "raygrove_placements",
        metadata,
        Column("app", text, nullable=False),
        Column("digest", LargeBinary, nullable=False, comment="of the user, whose name is not kept"),
        Column("store", Integer, nullable=False),
        Column("token", text, comment="of the move by which the user has left; empty: by none"),
        PrimaryKeyConstraint("app", "digest"),
    )
    arrivals = Table(
        "raygrove_arrivals",
        metadata,
        Column("app", text, nullable=False),
        Column("user", text, nullable=False),
        Column("number", Integer, nullable=False, comment="of the part; 0 says from which store and by which move"),
        Column("raw", LargeBinary, nullable=False),
        PrimaryKeyConstraint("app", "user", "number"),
    )
    return seats, placements, arrivals
