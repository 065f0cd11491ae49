"""The session store on a real PostgreSQL server: the contract, and the particulars of a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from actors.errors import SchemaVersionError, StoreConflictError, StoreError, StoreUnavailableError
from actors.interfaces.stores import CreateSession, HideEvents, PutState, RemoveSession
from actors.layers.stores.parts import SessionStore
from actors.messages.session import SessionKey, SessionPlace
from runtime.stores.sql import queries, schema
from runtime.stores.sql.database import Database
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.sql.statements import RowsStatement
from tests.services.test_sqlite_store import in_threads
from tests.support.polling import until
from tests.support.stores.batch_conformance import BatchConformance
from tests.support.stores.model_call_conformance import ModelCallConformance
from tests.support.stores.session_store_conformance import LastingStoreConformance
from tests.support.stores.store_writes import APP, S1, S2, event, fill_sessions, seqs, turn

VALUES: Sequence[tuple[TypeEngine[Any], object, object]] = (
    (BigInteger(), 2**40, -1),
    (Integer(), 7, -7),
    (Double(), 0.5, 0.0),
    (Boolean(), True, False),
    (LargeBinary(), b"\x00\xff", b""),
    (Text(), "späť", ""),
)
"""Two values of each type of column."""

pytestmark = pytest.mark.sampled(3, of="module", full=3)


@pytest.fixture
def url(server: str) -> str:
    """A database without tables."""
    with psycopg.connect(server, autocommit=True) as connection:
        for table in schema.metadata.tables:
            connection.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
    return server


@pytest.fixture
def store(url: str) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(url)
    store.open()
    yield store
    store.close()


class TestPostgres(LastingStoreConformance):
    @pytest.fixture
    def store(self, store: SqlSessionStore) -> SessionStore:
        return store


class TestModelCallsInPostgres(ModelCallConformance):
    pass


class TestBatchesInPostgres(BatchConformance):
    pass


def cut_connections(url: str) -> None:
    """Cut all connections, as a restart of the server or a proxy with a time limit does."""
    with psycopg.connect(url, autocommit=True) as connection:
        cut = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
        connection.execute(cut, [connection.info.backend_pid])


def test_what_is_asked_after_the_server_cut_the_connection_goes_through(store: SqlSessionStore, url: str) -> None:
    fill_sessions(store, S1, length=2)
    cut_connections(url)
    store.commit([event(S1, 3)])
    cut_connections(url)
    assert seqs(store.events(S1)) == [1, 2, 3]


def test_a_connection_cut_within_a_transaction_stores_nothing_and_the_next_call_works(store: SqlSessionStore, url: str) -> None:
    fill_sessions(store, S1, length=2)

    class Cutting(dict[str, Any]):
        def items(self) -> Any:
            cut_connections(url)
            return super().items()

    with pytest.raises(StoreError):
        store.commit([HideEvents(S1, 1, 1), PutState(S1, Cutting(k=1))])
    assert seqs(store.events(S1)) == [1, 2]
    store.commit([event(S1, 3)])
    assert seqs(store.events(S1)) == [1, 2, 3]


def test_a_connection_cut_while_a_commit_waits_stores_nothing_and_the_next_call_works(store: SqlSessionStore, url: str) -> None:
    store.claim("desk")
    fill_sessions(store, S1, length=2)
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as connection:
        holder.execute("SELECT 1 FROM raygrove_sessions FOR UPDATE")
        committing = threading.Thread(target=lambda: failed.extend(in_threads([lambda: store.commit([event(S1, 3)])])))
        failed: list[BaseException] = []
        committing.start()
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: connection.execute(cut).fetchall())
        committing.join(30)
    assert [type(error) for error in failed] == [StoreUnavailableError]
    store.commit([event(S1, 3)])
    assert seqs(store.events(S1)) == [1, 2, 3]


def test_a_server_that_cannot_be_reached_is_a_store_error_without_the_password(tmp_path: Path) -> None:
    store = SqlSessionStore(f"postgresql://ada:secret@/db?host={tmp_path}")
    with pytest.raises(StoreError, match="session store 'postgresql") as caught:
        store.open()
    assert "secret" not in str(caught.value)


def test_tables_of_a_newer_version_are_left_alone(store: SqlSessionStore, url: str) -> None:
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE raygrove_schema SET version = 99")
    with pytest.raises(SchemaVersionError):
        store.open()


def test_many_openers_of_an_empty_database_make_its_tables_once(url: str) -> None:
    stores = [SqlSessionStore(url) for _ in range(8)]
    assert in_threads([store.open for store in stores]) == []
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version FROM raygrove_schema").fetchall() == [(schema.VERSION,)]
    for store in stores:
        store.close()


def test_a_second_writer_of_a_session_is_told_of_the_first(store: SqlSessionStore, url: str) -> None:
    other = SqlSessionStore(url)
    other.open()
    fill_sessions(store, S1, S2, length=2)
    other.commit([event(S1, 3, id="theirs"), RemoveSession(S2)])
    with pytest.raises(StoreConflictError, match="place 3"):
        store.commit([event(S1, 3, id="ours")])
    store.session(S1)
    for write in (event(S2, 3), turn(S2), PutState(S2, {"k": 1}), HideEvents(S2, 1, 2)):
        with pytest.raises(StoreConflictError, match="not there"):
            store.commit([write])
    other.close()


def test_a_read_leaves_no_transaction_open(store: SqlSessionStore, url: str) -> None:
    fill_sessions(store, S1, length=2)
    store.events(S1)
    with psycopg.connect(url) as connection:
        states = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    assert states == [("idle",)]


def test_a_column_is_read_as_it_was_sent_also_where_all_values_are_the_same_or_none(url: str) -> None:
    database = Database(url)
    database.open()
    for kind, one, other in VALUES:
        given = RowsStatement([Column("value", kind)], "SELECT value FROM given")
        columns = ([one], [None], [one] * 3, [other] * 2, [None] * 2, [one, other], [one, one, None], [other, one, one])
        for values in columns:
            assert [value for (value,) in database.found(given, [(value,) for value in values])] == values
    database.close()


def test_a_text_with_a_null_character_is_a_store_error(store: SqlSessionStore) -> None:
    fill_sessions(store, S1)
    with pytest.raises(StoreError):
        store.commit([PutState(S1, {"a\x00b": 1})])
    store.commit([CreateSession(S2, 1.0)])
    assert [row.key for row in store.sessions(APP, "ada")] == [S2, S1]


def test_taking_a_session_up_reads_as_few_rows_with_a_long_log(store: SqlSessionStore, url: str) -> None:
    fill_sessions(store, S1, S2, length=5000)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        (sid,) = connection.execute("SELECT sid FROM raygrove_sessions WHERE session = 's1'").fetchone() or (0,)
        for query in (queries.SESSION.params(app=APP, user="ada", session="s1"), queries.AUTHORS.params(sid=sid)):
            text = str(query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))  # type: ignore[no-untyped-call]
            row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}".encode()).fetchone()
            assert row is not None
            assert rows_read(json.loads(json.dumps(row[0]))[0]["Plan"]) <= 12


def test_a_page_of_sessions_reads_as_few_rows_where_there_are_many(store: SqlSessionStore, url: str) -> None:
    store.commit([CreateSession(SessionKey(APP, f"u{number % 1000}", f"s{number}"), float(number)) for number in range(5_000)])
    place = {"before_updated_s": 2_500.0, "before_user": "u500", "before_session": "s2500"}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        for after_another in (False, True):
            query = queries.session_list(of_user=False, paged=True, after_another=after_another)
            bound = query.params(app=APP, limit=10, **(place if after_another else {}))
            text = str(bound.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))  # type: ignore[no-untyped-call]
            row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}".encode()).fetchone()
            assert row is not None
            assert rows_read(json.loads(json.dumps(row[0]))[0]["Plan"], "raygrove_sessions") <= 50
    page = store.sessions(APP, None, limit=2, before=SessionPlace(2_500.0, "u500", "s2500"))
    assert [row.key.session for row in page] == ["s2499", "s2498"]


def rows_read(node: dict[str, Any], table: str = "raygrove_events") -> float:
    """How many rows of a table a plan has read, those that it discarded included."""
    own = 0.0
    if node.get("Relation Name") == table:
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return own + sum(rows_read(child, table) for child in node.get("Plans", []))
