"""The tables of recorded model calls: a row for each call, and one for each part of requests in a session."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine


def model_call_tables(metadata: MetaData, sid: TypeEngine[int], text: TypeEngine[str] | Text) -> tuple[Table, Table]:
    """The tables: of calls, and of parts.

    Args:
        metadata: of the session store.
        sid, text: the types of its columns with the numbers of sessions, and with names.
    """
    model_calls = Table(
        "raygrove_model_calls",
        metadata,
        Column("sid", sid, nullable=False),
        Column("id", text, nullable=False),
        Column("invocation_id", text, nullable=False),
        Column("seq", BigInteger, nullable=False),
        Column("begun_s", Double, nullable=False),
        Column("raw", LargeBinary, nullable=False),
        PrimaryKeyConstraint("sid", "id"),
        ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
    )
    Index("raygrove_model_calls_of_turn", model_calls.c.sid, model_calls.c.invocation_id)
    Index("raygrove_model_calls_by_time", model_calls.c.begun_s)
    model_call_parts = Table(
        "raygrove_model_call_parts",
        metadata,
        Column("sid", sid, nullable=False),
        Column("digest", LargeBinary, nullable=False),
        Column("raw", LargeBinary, nullable=False),
        PrimaryKeyConstraint("sid", "digest"),
        ForeignKeyConstraint(["sid"], ["raygrove_sessions.sid"], ondelete="CASCADE"),
    )
    return model_calls, model_call_parts
