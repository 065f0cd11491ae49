"""How the store's statements are prepared and planned on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from actors.errors import StoreConflictError
from actors.interfaces.stores import CreateSession, PutState
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.store_writes import APP, S1, S2, event, seqs, turn


@pytest.fixture
def store(server: str) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(own_tables(server))
    store.open()
    store.claim("session")
    store.commit([CreateSession(key, 1.0) for key in (S1, S2)])
    yield store
    store.close()


def asked(store: SqlSessionStore, query: str) -> list[tuple[Any, ...]]:
    """What the store's connection answers."""
    return [tuple(row) for row in store._rows(text(query))]


def prepared_here(store: SqlSessionStore) -> set[str]:
    """The names of the statements that the store has prepared."""
    return {name for (name,) in asked(store, "SELECT name FROM pg_prepared_statements")}


def test_commits_of_one_form_are_prepared_once(store: SqlSessionStore) -> None:
    store.commit([event(S1, 1)])
    before = prepared_here(store)
    for seq in range(2, 9):
        store.commit([event(S1, seq), event(S2, seq - 1)])
    assert prepared_here(store) == before


@pytest.mark.parametrize("length", [0, 1])
def test_a_commit_that_was_refused_leaves_its_statements_to_the_next_one(store: SqlSessionStore, length: int) -> None:
    store.commit([event(S1, seq) for seq in range(1, length + 1)])
    refused = [event(S1, 1), event(S1, 1), turn(S1), PutState(S1, {"k": 1}, ())]
    for _ in range(2):
        with pytest.raises(StoreConflictError):
            store.commit(refused)
        store.commit(refused[2:])
    store.commit([event(S1, length + 1)])
    assert seqs(store.events(S1)) == list(range(1, length + 2))


def test_a_commit_finds_sessions_by_their_key_however_many_have_come_since_it_was_planned(store: SqlSessionStore) -> None:
    store.commit([turn(S1)])
    store.commit([CreateSession(SessionKey(APP, f"user {number}", "s"), 1.0) for number in range(2_000)])
    before = _rows_read(store)
    for number in range(8):
        store.commit([turn(S1, at_s=float(number))])
    assert _rows_read(store) - before < 100


def _rows_read(store: SqlSessionStore) -> int:
    asked(store, "SELECT pg_stat_force_next_flush()")
    [(count,)] = asked(store, "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'raygrove_sessions'::regclass")
    return int(count)
