"""The tables of recorded model calls: a row for each call, and one for each part of requests in a session."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
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


def add_model_calls(connection: Connection) -> None:
    """Migration from version 9: adds the records of model calls."""
    is_postgres = connection.dialect.name == "postgresql"
    sid, raw = ("BIGINT", "BYTEA") if is_postgres else ("INTEGER", "BLOB")
    text, real = ('TEXT COLLATE "C"', "DOUBLE PRECISION") if is_postgres else ("TEXT", "DOUBLE")
    of_session = "FOREIGN KEY (sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE"
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_model_calls (sid {sid} NOT NULL, id {text} NOT NULL, invocation_id {text} NOT NULL, "
        f"seq BIGINT NOT NULL, begun_s {real} NOT NULL, raw {raw} NOT NULL, PRIMARY KEY (sid, id), {of_session})"
    )
    connection.exec_driver_sql("CREATE INDEX raygrove_model_calls_of_turn ON raygrove_model_calls (sid, invocation_id)")
    connection.exec_driver_sql("CREATE INDEX raygrove_model_calls_by_time ON raygrove_model_calls (begun_s)")
    connection.exec_driver_sql(
        f"CREATE TABLE raygrove_model_call_parts (sid {sid} NOT NULL, digest {raw} NOT NULL, raw {raw} NOT NULL, "
        f"PRIMARY KEY (sid, digest), {of_session})"
    )
