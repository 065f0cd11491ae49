"""Of all stores that have claimed the same place, only the last one can write; the others learn so, and store nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from actors.errors import StoreRevertedError, StoreUnavailableError, WriterReplacedError
from actors.interfaces.stores import CreateSession, HideEvents, PutState
from runtime.stores.sql import writers
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.polling import until
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.store_writes import S1, S2, event, fill_sessions, seqs, turn
from tests.support.tries import tries

Open = Callable[[], SqlSessionStore]


def test_who_was_replaced_writes_nothing_more_and_still_reads(open_store: Open) -> None:
    old, new = open_store(), open_store()
    old.claim("desk")
    fill_sessions(old, S1, length=2)
    new.claim("desk")
    for writes in ([event(S1, 3)], [turn(S1)], [PutState(S1, {"k": 1})], [CreateSession(S2, 1.0)]):
        with pytest.raises(WriterReplacedError, match="'desk'"):
            old.commit(writes)
    assert seqs(old.events(S1)) == [1, 2]
    assert (old.session(S1).state, old.session(S2)) == ({}, None)  # type: ignore[union-attr]
    new.commit([event(S1, 3)])
    assert seqs(old.events(S1)) == [1, 2, 3]


def test_who_leaves_its_place_may_write_and_takes_it_from_nobody(open_store: Open) -> None:
    old, new = open_store(), open_store()
    old.claim("desk")
    new.claim("desk")
    old.give_up_claim()
    fill_sessions(new, S1, length=1)
    new.give_up_claim()
    new.commit([event(S1, 2)])
    assert new._rows(text("SELECT * FROM raygrove_writers")) == []


def test_a_claim_outlasts_its_connection(open_store: Open) -> None:
    old, new = open_store(), open_store()
    old.claim("desk")
    fill_sessions(old, S1, length=1)
    old._database._drop_connection()
    old.commit([event(S1, 2)])
    new.claim("desk")
    old._database._drop_connection()
    with pytest.raises(WriterReplacedError):
        old.commit([event(S1, 3)])


@settings(max_examples=tries(60), deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["claim", "leave", "write"]), st.integers(0, 2)), max_size=12))
def test_only_the_last_holder_of_a_place_writes(steps: list[tuple[str, int]]) -> None:
    # One database in memory: the stores share its connection.
    first = SqlSessionStore("sqlite://")
    first.open()
    fill_sessions(first, S1)
    stores = [first, SqlSessionStore("sqlite://"), SqlSessionStore("sqlite://")]
    for store in stores:
        store._database = first._database
    held: set[int] = set()
    holder, length = -1, 0
    for step, number in steps:
        if step == "claim":
            stores[number].claim("desk")
            held.add(number)
            holder = number
        elif step == "leave":
            stores[number].give_up_claim()
            held.discard(number)
            holder = -1 if holder == number else holder
        elif number not in held or number == holder:
            length += 1
            stores[number].commit([event(S1, length)])
        else:
            with pytest.raises(WriterReplacedError if holder >= 0 else StoreRevertedError):
                stores[number].commit([event(S1, length + 1)])
    assert seqs(first.events(S1)) == list(range(1, length + 1))
    first.close()


class Standing:
    """A writer in the midst of a commit of several steps, which has looked whether it has its place."""

    def __init__(self, url: str) -> None:
        self._store = SqlSessionStore(url)
        self._store.open()
        self._store.claim("desk")
        fill_sessions(self._store, S1)
        self._stands, self._may_go_on = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        claim = self._store._claim
        assert claim is not None

        class Slow(writers.WriterClaim):
            def count(claimed, transaction: Any) -> None:
                super().count(transaction)
                self._stands.set()
                self._may_go_on.wait(30)

        slow = Slow(claim.writer)
        vars(slow).update(vars(claim))
        self._store._claim = slow
        self._thread = threading.Thread(target=self._commit)
        self._thread.start()
        self._stands.wait(10)

    def _commit(self) -> None:
        try:
            # On PostgreSQL what hides events takes a step of its own.
            self._store.commit([HideEvents(S1, 1, 1), event(S1, 1)])
        except BaseException as error:
            self.error = error

    def go_on(self) -> None:
        self._may_go_on.set()
        self._thread.join(30)
        self._store.close()


def test_what_is_being_committed_is_there_when_the_place_is_taken(server: str) -> None:
    url = own_tables(server)
    old, new = Standing(url), SqlSessionStore(url)
    new.open()
    taking = threading.Thread(target=new.claim, args=("desk",))
    taking.start()
    with psycopg.connect(url, autocommit=True) as connection:
        until(lambda: connection.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall())
    old.go_on()
    taking.join(30)
    assert old.error is None
    assert seqs(new.events(S1)) == [1]
    new.close()


def test_a_commit_that_has_its_place_and_waits_is_there_when_that_is_taken(server: str) -> None:
    url = own_tables(server)
    old, new = SqlSessionStore(url), SqlSessionStore(url)
    old.open()
    old.claim("desk")
    fill_sessions(old, S1)
    new.open()
    errors: list[BaseException] = []

    def commit() -> None:
        try:
            old.commit([event(S1, 1)])
        except BaseException as error:
            errors.append(error)

    committing, taking = threading.Thread(target=commit), threading.Thread(target=new.claim, args=("desk",))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as connection:
        holder.execute("SELECT 1 FROM raygrove_sessions FOR UPDATE")
        committing.start()
        until(lambda: len(connection.execute(waiting).fetchall()) == 1)
        taking.start()
        until(lambda: len(connection.execute(waiting).fetchall()) == 2)
    for thread in (committing, taking):
        thread.join(30)
    assert errors == []
    assert seqs(new.events(S1)) == [1]
    with pytest.raises(WriterReplacedError):
        old.commit([event(S1, 2)])
    for store in (old, new):
        store.close()


def test_nobody_waits_for_a_commit_that_stands_still(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = own_tables(server)
    monkeypatch.setattr(writers, "_COUNT_AND_LIMIT", writers._COUNT_AND_LIMIT.replace(f"{writers.IDLE_S}s", "300ms"))
    old, new = Standing(url), SqlSessionStore(url)
    new.open()
    new.claim("desk")
    old.go_on()
    assert isinstance(old.error, StoreUnavailableError)
    assert new.events(S1) == []
    new.close()
