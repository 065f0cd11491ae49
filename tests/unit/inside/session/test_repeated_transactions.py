"""A transaction whose end is not known is made once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from actors.errors import StoreConflictError, StoreUnavailableError
from actors.interfaces.stores import CreateSession, PutState, Write
from actors.layers.stores.parts import SessionStore
from actors.session.store.group_commit import Transaction, is_stored
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.store_writes import S1, event, fill_sessions, seqs, turn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(f"sqlite:///{path}", lock_timeout_s=0.05)
    store.open()
    yield store
    store.close()


class Breaking(SqlSessionStore):
    """The connection breaks in the commit: before the database has done it, or after."""

    breaks = ""

    def commit(self, writes: Sequence[Write]) -> None:
        how, self.breaks = self.breaks, ""
        if how != "before":
            super().commit(writes)
        if how:
            raise StoreUnavailableError(str(self), "the connection is lost")


@pytest.mark.parametrize("how", ["before", "after"])
def test_writes_of_which_nobody_knows_are_stored_once(path: Path, how: str) -> None:
    store = Breaking(f"sqlite:///{path}")
    store.open()
    writes: list[Write] = [CreateSession(S1, 1.5), event(S1, 1), turn(S1), PutState(S1, {"k": 1}), event(S1, 2, raw=b"more")]
    store.breaks = how
    transaction = Transaction(store, writes)
    with pytest.raises(StoreUnavailableError):
        transaction()
    assert is_stored(store, writes) is (how == "after")
    transaction()
    assert (seqs(store.events(S1)), store.session(S1).state) == ([1, 2], {"k": 1})  # type: ignore[union-attr]
    store.close()


def test_a_place_that_somebody_else_has_taken_meanwhile_is_a_conflict(path: Path) -> None:
    store = Breaking(f"sqlite:///{path}")
    store.open()
    fill_sessions(store, S1, length=1)
    store.breaks = "before"
    transaction = Transaction(store, [event(S1, 2, id="ours", raw=b"ours")])
    with pytest.raises(StoreUnavailableError):
        transaction()
    filled_by_other: SessionStore = SqlSessionStore(f"sqlite:///{path}")
    filled_by_other.open()
    filled_by_other.commit([event(S1, 2, id="theirs", raw=b"theirs")])
    filled_by_other.close()
    with pytest.raises(StoreConflictError):
        transaction()
    assert store.events(S1)[1] == (2, b"theirs")
    store.close()


def test_what_the_process_before_has_stored_meanwhile_is_stored_once_and_the_later_record_counts(
    store: SqlSessionStore,
) -> None:
    fill_sessions(store, S1, length=1)
    message = event(S1, 2)
    store.commit([message, turn(S1, epoch=1)])
    Transaction(store, [message, turn(S1, epoch=2), PutState(S1, {"k": 1})])()
    found, row = store.session(S1), store.turn(S1, turn(S1).row.invocation_id)
    assert found is not None
    assert row is not None
    assert (seqs(store.events(S1)), found.state, row.epoch) == ([1, 2], {"k": 1}, 2)


def test_what_others_have_gone_on_from_is_a_conflict(store: SqlSessionStore) -> None:
    fill_sessions(store, S1, length=1)
    message = event(S1, 2)
    store.commit([message, event(S1, 3)])
    with pytest.raises(StoreConflictError):
        Transaction(store, [message, turn(S1, epoch=2)])()
    assert store.turn(S1, turn(S1).row.invocation_id) is None


def test_another_event_with_the_same_id_is_a_conflict(store: SqlSessionStore) -> None:
    fill_sessions(store, S1, length=1)
    store.commit([event(S1, 2, id="one", raw=b"theirs")])
    with pytest.raises(StoreConflictError):
        Transaction(store, [event(S1, 2, id="one", raw=b"ours")])()
