"""The sums of turns in SQLite and PostgreSQL: whose they are, when they began, and which turns have none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from actors.interfaces.stores import CreateSession, HideEvents, PutTurn, RemoveSession, TurnRow, Write
from actors.layers.stores.records import TurnName, UnsummedTurn, UsageFilter
from actors.messages.session import SessionKey
from runtime.stores.sql import schema
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.store_writes import APP, OTHER, S1, S2, event

ELSEWHERE = SessionKey("elsewhere", "ada", "s1")


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlSessionStore]:
    """An empty store of each kind."""
    url = f"sqlite:///{tmp_path}/s.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("server")
        with psycopg.connect(url, autocommit=True) as connection:
            for table in schema.metadata.tables:
                connection.execute(f'DROP TABLE IF EXISTS "{table}" CASCADE'.encode())
    store = SqlSessionStore(url)
    store.open()
    yield store
    store.close()


def turn(key: SessionKey, name: str, begun_s: float, usage: bytes, status: str = "finished", seq: int = 1) -> PutTurn:
    row = TurnRow(
        invocation_id=name, status=status, epoch=1, first_seq=seq, opened_seq=seq, last_seq=seq, begun_s=begun_s, usage=usage
    )
    return PutTurn(key, row, begun_s)


def fill(store: SqlSessionStore) -> None:
    writes: list[Write] = [CreateSession(key, 1.0) for key in (S1, S2, OTHER, ELSEWHERE)]
    writes += [event(key, 1) for key in (S1, S2, OTHER, ELSEWHERE)]
    writes += [event(S1, 2), event(S1, 3)]
    writes += [
        turn(S1, "e-1", 10.0, b"one"),
        turn(S1, "e-2", 90_000.0, b"two", seq=2),
        turn(S1, "e-3", 90_001.0, b"old", "running", seq=3),
        turn(S2, "e-1", 20.0, b"three"),
        turn(OTHER, "e-1", 30.0, b"four"),
        turn(OTHER, "e-2", 40.0, b"", "failed"),
        turn(ELSEWHERE, "e-1", 5.0, b"five"),
    ]
    store.commit(writes)


RUNS = UnsummedTurn(S1, "e-3", 3, 0, 90_001.0)
FAILED = UnsummedTurn(OTHER, "e-2", 1, 1, 40.0)


def test_the_turns_of_a_session_of_a_user_and_of_one_turn_come_at_once(store: SqlSessionStore) -> None:
    fill(store)
    found = store.usage(UsageFilter(app=APP, user="ada"))
    assert (sorted(found.turns[""]), list(found.unsummed), found.next) == ([b"one", b"three", b"two"], [RUNS], None)
    assert store.usage(UsageFilter(app=APP, user="ada", session="s2")).turns == {"": [b"three"]}
    assert store.usage(UsageFilter(app=APP, user="ada", session="s1", invocation_id="e-2")).turns == {"": [b"two"]}
    nobody = store.usage(UsageFilter(app=APP, user="carl"))
    assert (nobody.turns, list(nobody.unsummed)) == ({"": []}, [])
    assert store.usage(UsageFilter(app=APP, user="carl", session="s1")).turns == {"": []}


def test_users_and_days_are_told_apart(store: SqlSessionStore) -> None:
    fill(store)
    by_user = store.usage(UsageFilter(app=APP, groups="user"))
    assert {user: sorted(turns) for user, turns in by_user.turns.items()} == {"ada": [b"one", b"three", b"two"], "bob": [b"four"]}
    assert sorted(by_user.unsummed) == [RUNS, FAILED]
    by_day = store.usage(UsageFilter(app=APP, user="ada", groups="day"))
    assert {day: sorted(turns) for day, turns in by_day.turns.items()} == {
        "1970-01-01": [b"one", b"three"],
        "1970-01-02": [b"two"],
    }


def test_turns_are_told_apart_by_their_places(store: SqlSessionStore) -> None:
    fill(store)
    page = store.usage(UsageFilter(app=APP, groups="turn"))
    assert sorted(page.turns[""]) == [b"four", b"one", b"three", b"two"]
    names = store.turn_names(page.ids)
    found = {usage: names[at] for usage, at in zip(page.turns[""], page.ids, strict=True)}
    assert found == {
        b"one": TurnName("ada", "s1", "e-1", 10.0),
        b"two": TurnName("ada", "s1", "e-2", 90_000.0),
        b"three": TurnName("ada", "s2", "e-1", 20.0),
        b"four": TurnName("bob", "s1", "e-1", 30.0),
    }
    for wanted in (
        UsageFilter(app=APP, user="ada", groups="turn"),
        UsageFilter(app=APP, user="ada", session="s2", groups="turn"),
    ):
        narrow = store.usage(wanted)
        assert [names[at] for at in narrow.ids] == [found[usage] for usage in narrow.turns[""]]


def test_names_are_read_of_any_number_of_turns_and_of_none_that_was_deleted(store: SqlSessionStore) -> None:
    fill(store)
    many = [turn(S2, f"e-{number}", 10.0 + number, b"x") for number in range(2, 254)]
    store.commit([*many, turn(OTHER, "e-'; --", 1.0, b"y")])
    ids = store.usage(UsageFilter(app=APP, groups="turn")).ids
    assert len(store.turn_names(ids)) == len(ids) == 257
    store.commit([RemoveSession(S2)])
    assert {name.session for name in store.turn_names(ids).values()} == {"s1"}
    assert store.turn_names([]) == {}


def test_only_turns_that_began_late_enough_are_wanted(store: SqlSessionStore) -> None:
    fill(store)
    found = store.usage(UsageFilter(app=APP, user="ada", since_s=90_000.0))
    assert (found.turns, list(found.unsummed)) == ({"": [b"two"]}, [RUNS])


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_an_app_comes_in_pages_in_which_each_turn_is_once(
    store: SqlSessionStore, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("runtime.stores.sql.usage.PAGE", size)
    fill(store)
    store.commit([turn(S2, "e-9", 30.0, b"six")])
    wanted = UsageFilter(app=APP)
    turns: list[bytes] = []
    unsummed: list[UnsummedTurn] = []
    page = store.usage(wanted)
    while True:
        assert sum(map(len, page.turns.values())) + len(page.unsummed) <= size
        turns += page.turns[""]
        unsummed += page.unsummed
        if page.next is None:
            break
        page = store.usage(wanted, page.next)
    assert sorted(turns) == [b"four", b"one", b"six", b"three", b"two"]
    assert sorted(unsummed) == [RUNS, FAILED]


def test_rewound_turns_count_and_those_of_removed_sessions_do_not(store: SqlSessionStore) -> None:
    fill(store)
    store.commit([HideEvents(S1, 1, 3), RemoveSession(S2)])
    assert sorted(store.usage(UsageFilter(app=APP, user="ada")).turns[""]) == [b"one", b"two"]


def test_the_sums_of_a_turn_are_read_with_its_record(store: SqlSessionStore) -> None:
    fill(store)
    found = store.turn(S1, "e-2")
    assert found is not None
    assert found.usage == b"two"
    assert [row.usage for _, row in store.running(APP)] == [b"old"]
