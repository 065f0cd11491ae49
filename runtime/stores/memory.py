"""The memory store: full-text search in a SQL database, by SQLite's FTS5 or PostgreSQL's text search.

Rules of this file:

- Both databases get the same words, split and folded here, so that both find the same entries. Their own parsers differ: one
  splits `ada@example.com`, the other does not.
- A query reaches the database as quoted words, or as data: none of its characters is an operator.
- On SQLite the index holds a hash of app and user beside the words, so that a search never reads entries of other users. The
  owner of an entry is checked by its row as well.
- Memory has tables of its own, and on SQLite a file of its own: a search never waits for the log's writer, and the writer never
  waits while a long session is indexed. All entries can be rebuilt from the log.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from actors.interfaces.stores import MemoryStore
from actors.messages.codec import decode, encode
from actors.messages.session import MemoryEntry, SessionKey
from runtime.stores.sql.database import LOCK_TIMEOUT_S, Database, SqlStore, SqlTransaction
from runtime.stores.sql.schema import create_tables, prepare_tables, version_table

VERSION = 1
"""The version of the tables below. Raise it with every change to them."""

MAX_TEXT = 100_000
"""Characters of an entry that are indexed; PostgreSQL takes about a megabyte of words."""

MAX_WORDS = 100
"""Different words of a query that are searched for."""

_Row = dict[str, Any]
"""Values of a row by column."""

_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
_ID = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

schema_version = version_table("raygrove_memory_schema", metadata)

entries = Table(
    "raygrove_memory",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("app", _TEXT, nullable=False),
    Column("user", _TEXT, nullable=False),
    Column("session", _TEXT, nullable=False),
    Column("timestamp", Double, nullable=False),
    Column("words", TSVECTOR().with_variant(Text(), "sqlite")),
    Column("raw", LargeBinary, nullable=False),
    Index("raygrove_memory_by_session", "app", "user", "session"),
)
"""`words` holds the indexed words on PostgreSQL, and is empty on SQLite, where the index is a table of its own."""

BY_WORDS = Index("raygrove_memory_by_words", entries.c.words, postgresql_using="gin").ddl_if(dialect="postgresql")

_FTS5 = "CREATE VIRTUAL TABLE raygrove_memory_words USING fts5(owner, words)"

_of_session = (
    entries.c.app == bindparam("of_app"),
    entries.c.user == bindparam("of_user"),
    entries.c.session == bindparam("of_session"),
)
_DELETE = delete(entries).where(*_of_session)
_IDS = select(entries.c.id).where(*_of_session)
_of_user = (entries.c.app == bindparam("of_app"), entries.c.user == bindparam("of_user"))
_IDS_OF_USER = select(entries.c.id).where(*_of_user)
_DELETE_OF_USER = delete(entries).where(*_of_user)
_USERS = (
    select(entries.c.user)
    .distinct()
    .where(entries.c.app == bindparam("app"), entries.c.user > bindparam("after"))
    .order_by(entries.c.user)
    .limit(bindparam("limit"))
)
_SESSIONS = (
    select(entries.c.session)
    .distinct()
    .where(entries.c.app == bindparam("app"), entries.c.user == bindparam("user"), entries.c.session > bindparam("after"))
    .order_by(entries.c.session)
    .limit(bindparam("limit"))
)
_RAWS = select(entries.c.raw).where(*_of_session).order_by(entries.c.id)
_INSERT = insert(entries).returning(entries.c.id, sort_by_parameter_order=True)
_INSERT_INDEXED = insert(entries).values(words=func.to_tsvector("simple", bindparam("of_words")))
_INSERT_WORDS = text("INSERT INTO raygrove_memory_words (rowid, owner, words) VALUES (:id, :owner, :words)")
_MERGE_INDEX = text("INSERT INTO raygrove_memory_words (raygrove_memory_words) VALUES ('optimize')")
_DELETE_WORDS = text("DELETE FROM raygrove_memory_words WHERE rowid = :id")

# The owner is the same in all rows that are found, so its weight is 0. The lowest bm25 is the best.
_SEARCH_FTS5 = text(
    """
    SELECT raw FROM raygrove_memory_words JOIN raygrove_memory AS entry ON entry.id = raygrove_memory_words.rowid
    WHERE raygrove_memory_words MATCH :query AND entry.app = :app AND entry."user" = :user
    ORDER BY bm25(raygrove_memory_words, 0.0, 1.0), entry.timestamp DESC, entry.id DESC LIMIT :limit
    """
)

_query = func.websearch_to_tsquery("simple", bindparam("query"))
# 1: the rank is divided by the logarithm of the length, so that long entries are not always first.
_SEARCH_TSVECTOR = (
    select(entries.c.raw)
    .where(entries.c.words.bool_op("@@")(_query), entries.c.app == bindparam("app"), entries.c.user == bindparam("user"))
    .order_by(func.ts_rank(entries.c.words, _query, 1).desc(), entries.c.timestamp.desc(), entries.c.id.desc())
    .limit(bindparam("limit"))
)


class SqlMemoryStore(SqlStore, MemoryStore):
    """Implements `MemoryStore` on SQLite or PostgreSQL.

    Args:
        url: as for the session store. A PostgreSQL database may hold both.
        lock_timeout_s: as for the session store.

    Raises:
        StoreError: the URL is of no known kind.
    """

    def __init__(self, url: str, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        super().__init__(Database(url, "memory store", lock_timeout_s))

    def _prepare(self, connection: Connection) -> None:
        prepare(connection)

    def add_session(self, key: SessionKey, entries: Sequence[MemoryEntry]) -> None:
        """Replace the entries of a session, all or none. Raises StoreError."""
        rows = [_row(key, entry) for entry in entries]
        words = [" ".join(words_of(entry.text[:MAX_TEXT])) for entry in entries]
        self._within(lambda transaction: self._replace(transaction.connection, key, rows, words))

    def search(self, app: str, user: str, query: str, limit: int) -> list[MemoryEntry]:
        """The entries of a user that share a word with the query, best first. Raises StoreError.

        On SQLite rare words count more than common ones (bm25), on PostgreSQL all count alike (ts_rank).
        """
        words = list(dict.fromkeys(words_of(query[:MAX_TEXT])))[:MAX_WORDS]
        if not words or limit < 1:
            return []
        quoted = [f'"{word}"' for word in words]
        if self._database.is_sqlite:
            match = f'owner : "{_owner(app, user)}" AND words : ({" OR ".join(quoted)})'
            statement: Any = _SEARCH_FTS5
        else:
            match = " OR ".join(quoted)
            statement = _SEARCH_TSVECTOR
        found = self._database.rows(statement, {"query": match, "app": app, "user": user, "limit": limit})
        return [decode(row.raw, MemoryEntry) for row in found]

    def delete_session(self, key: SessionKey) -> None:
        """Remove all entries of a session. A missing one is no error. Raises StoreError."""
        self._within(lambda transaction: self._replace(transaction.connection, key, [], []))

    def users(self, app: str, after: str, limit: int) -> list[str]:
        """The users of an app that have entries, by name: see `MemoryStore.users`. Raises StoreError."""
        return [row.user for row in self._database.rows(_USERS, {"app": app, "after": after, "limit": limit})]

    def remembered(self, app: str, user: str, after: str, limit: int) -> list[tuple[str, list[MemoryEntry]]]:
        """The entries of a user by session: see `MemoryStore.remembered`. Raises StoreError."""
        sessions = self._database.rows(_SESSIONS, {"app": app, "user": user, "after": after, "limit": limit})
        return [(row.session, self._entries(SessionKey(app, user, row.session))) for row in sessions]

    def _entries(self, key: SessionKey) -> list[MemoryEntry]:
        rows = self._database.rows(_RAWS, {"of_app": key.app, "of_user": key.user, "of_session": key.session})
        return [decode(row.raw, MemoryEntry) for row in rows]

    def delete_user(self, app: str, user: str) -> int:
        """Remove all entries of a user, also from SQLite's index and its write-ahead log. Returns how many there were.

        Raises StoreError. On SQLite the whole index is written anew, since it keeps the words of deleted entries otherwise.
        """
        of_user = {"of_app": app, "of_user": user}
        removed: list[int] = []

        def delete_all(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            removed[:] = connection.execute(_IDS_OF_USER, of_user).scalars()
            if self._database.is_sqlite:
                if removed:
                    connection.execute(_DELETE_WORDS, [{"id": id} for id in removed])
                connection.execute(_MERGE_INDEX)
            connection.execute(_DELETE_OF_USER, of_user)

        self._within(delete_all)
        self._database.erase_traces()
        return len(removed)

    def _replace(self, connection: Connection, key: SessionKey, rows: list[_Row], words: list[str]) -> None:
        session = {"of_app": key.app, "of_user": key.user, "of_session": key.session}
        if not self._database.is_sqlite:
            connection.execute(_DELETE, session)
            if rows:
                connection.execute(_INSERT_INDEXED, [{**row, "of_words": text} for row, text in zip(rows, words, strict=True)])
            return
        removed = [{"id": found} for found in connection.execute(_IDS, session).scalars()]
        if removed:
            connection.execute(_DELETE_WORDS, removed)
            connection.execute(_DELETE, session)
        if rows:
            owner = _owner(key.app, key.user)
            ids = connection.execute(_INSERT, rows).scalars().all()
            connection.execute(
                _INSERT_WORDS, [{"id": id, "owner": owner, "words": text} for id, text in zip(ids, words, strict=True)]
            )


def prepare(connection: Connection) -> None:
    """Create the tables, or look whether they are of this program's version. Raises SchemaVersionError."""
    prepare_tables(connection, schema_version, VERSION, _create)


def restore(connection: Connection, rows: Sequence[_Row]) -> None:
    """Store rows of another store under their ids, all columns but `words`. Their words are indexed anew."""
    words = [" ".join(words_of(decode(row["raw"], MemoryEntry).text[:MAX_TEXT])) for row in rows]
    if connection.dialect.name != "sqlite":
        connection.execute(_INSERT_INDEXED, [{**row, "of_words": text} for row, text in zip(rows, words, strict=True)])
        return
    connection.execute(insert(entries), rows)
    indexed = [
        {"id": row["id"], "owner": _owner(row["app"], row["user"]), "words": text} for row, text in zip(rows, words, strict=True)
    ]
    connection.execute(_INSERT_WORDS, indexed)


def words_of(text: str) -> list[str]:
    """The words of a text in their order: letters and digits, without case and accents.

    Text without spaces, such as Chinese, is one word up to the next punctuation mark.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    return re.findall(r"[^\W_]+", "".join(char for char in folded if not unicodedata.category(char).startswith("M")))


def url_beside(session_store: str) -> str:
    """The URL of the memory store for a session store: the same database, or a SQLite file beside its file."""
    if not session_store.startswith("sqlite"):
        return session_store
    path, mark, query = session_store.partition("?")
    if path.endswith((":", "/")) or ":memory:" in path:
        return "sqlite://"
    stem, dot, suffix = path.rpartition(".")
    beside = f"{stem}.memory.{suffix}" if dot and "/" not in suffix else f"{path}.memory"
    return f"{beside}{mark}{query}"


def _row(key: SessionKey, entry: MemoryEntry) -> _Row:
    return {"app": key.app, "user": key.user, "session": key.session, "timestamp": entry.timestamp, "raw": encode(entry)}


def _owner(app: str, user: str) -> str:
    return hashlib.sha256(encode([app, user])).hexdigest()


def _create(connection: Connection) -> None:
    create_tables(connection, metadata)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_FTS5)
