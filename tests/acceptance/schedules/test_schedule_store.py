"""Schedules in both stores: what each write does, also when it is done again, and which questions an index answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, text

from actors import Content, RunConfig
from actors.layers.stores.records import AddSchedule, AdvanceSchedule, RemoveSchedule, SetDueTime
from actors.layers.stores.schedule import DuePlace, SchedulePlan, ScheduleRow, Timing
from actors.messages.codec import encode
from actors.messages.protocol.turns import ScheduledTime
from actors.messages.session import SessionKey
from runtime.stores.sql import schedules as queries
from runtime.stores.sql.database import Database
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.transfer.json_lines import read_lines, write_lines
from runtime.stores.transfer.tables import WholeStore, copy_store
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.store_writes import APP

PLAN = SchedulePlan(timing=Timing(every_s=60, start_s=5), content=Content.of_text("hi"), config=RunConfig(timeout=5.0))
S1 = SessionKey(APP, "ada", "s1")
OTHER = SessionKey(APP, "bob", "s1")


def row(name: str, due_s: int | None, key: SessionKey = S1, schedule_id: str = "") -> ScheduleRow:
    return ScheduleRow(key=key, name=name, id=schedule_id or f"id-{name}", due_s=due_s, raw=encode(PLAN))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sessions.db"
    return own_tables(request.getfixturevalue("server"))


@pytest.fixture
def store(url: str) -> Iterator[SqlSessionStore]:
    store = SqlSessionStore(url)
    store.open()
    yield store
    store.close()


def digest(store: SqlSessionStore) -> ScheduleRow:
    found = store.schedule(APP, "ada", "digest")
    assert found is not None
    return found


def names(rows: list[ScheduleRow]) -> list[str]:
    return [each.name for each in rows]


def test_a_schedule_comes_back_as_it_went_in(store: SqlSessionStore) -> None:
    given = row("digest", 100)
    store.commit([AddSchedule(S1, given)])
    assert store.schedule(APP, "ada", "digest") == given
    assert given.plan == PLAN
    assert store.schedule(APP, "bob", "digest") is None


def test_a_name_that_is_taken_stays_as_it_is(store: SqlSessionStore) -> None:
    store.commit([AddSchedule(S1, row("digest", 100))])
    store.commit([AddSchedule(S1, row("digest", 7, schedule_id="another")), AddSchedule(OTHER, row("digest", 7, OTHER))])
    assert store.schedule(APP, "ada", "digest") == row("digest", 100)
    assert store.schedule(APP, "bob", "digest") == row("digest", 7, OTHER)


def test_schedules_are_found_by_the_beginning_of_their_names(store: SqlSessionStore) -> None:
    some = [f"m/{number:03}" for number in range(250)]
    rows = [row(name, None) for name in ("a", "m", *some, "n")] + [row("m/x", None, OTHER)]
    store.commit([AddSchedule(each.key, each) for each in rows])
    assert names(store.schedules_with(APP, "ada", "m/")) == some
    for limit in (1, 2, 3, 202, 251):
        assert names(store.schedules_with(APP, "ada", "m/", limit=limit)) == some[:limit]
    assert names(store.schedules_with(APP, "ada", "m/249")) == []
    assert names(store.schedules_with(APP, "bob", "m/")) == ["m/x"]
    assert names(store.schedules_with(APP, "ada", "n/")) == []


def test_lists_are_by_user_and_name_and_what_is_due_by_time(store: SqlSessionStore) -> None:
    rows = [row("b", 30), row("a", 20), row("c", None), row("a", 20, OTHER), row("z", 10, OTHER)]
    store.commit([AddSchedule(each.key, each) for each in rows])
    assert names(store.schedules(APP, None)) == ["a", "b", "c", "a", "z"]
    assert names(store.schedules(APP, "ada", limit=2)) == ["a", "b"]
    assert names(store.schedules(APP, None, limit=2, after=("ada", "b"))) == ["c", "a"]
    due = store.next_schedules(APP, limit=9)
    assert [(each.due_s, each.key.user, each.name) for each in due] == [
        *((10, "bob", "z"), (20, "ada", "a"), (20, "bob", "a"), (30, "ada", "b")),
    ]
    assert store.next_schedules(APP, limit=2, after=DuePlace(20, "ada", "a")) == due[2:]
    assert store.next_schedules("other", limit=9) == []


def test_a_schedule_goes_on_once_from_each_due_time(store: SqlSessionStore) -> None:
    store.commit([AddSchedule(S1, row("digest", 100))])
    on = AdvanceSchedule(S1, ScheduledTime("digest", "id-digest", 160, 220))
    for _ in range(2):
        store.commit([on])
        found = digest(store)
        assert (found.due_s, found.last_s, found.turns, found.error) == (220, 160, 1, "")
    store.commit([AdvanceSchedule(S1, ScheduledTime("digest", "another", 220, 280))])
    assert store.schedule(APP, "ada", "digest") == found
    store.commit([AdvanceSchedule(S1, ScheduledTime("digest", "id-digest", 220, 280), "no room")])
    found = digest(store)
    assert (found.due_s, found.last_s, found.turns, found.error) == (280, 160, 1, "no room")


def test_after_its_last_due_time_a_schedule_is_gone_unless_it_has_failed(store: SqlSessionStore) -> None:
    store.commit([AddSchedule(S1, row(name, 100)) for name in ("made", "failed")])
    store.commit([AdvanceSchedule(S1, ScheduledTime("made", "id-made", 100))])
    store.commit([AdvanceSchedule(S1, ScheduledTime("failed", "id-failed", 100), "no room")])
    [failed] = store.schedules(APP, "ada")
    assert (failed.name, failed.due_s, failed.error) == ("failed", None, "no room")
    assert store.next_schedules(APP, limit=9) == []


def test_a_schedule_that_is_paused_does_not_go_on(store: SqlSessionStore) -> None:
    store.commit([AddSchedule(S1, row("digest", 100))])
    store.commit([SetDueTime(S1, "digest", "id-digest", None, paused=True)])
    for next_s in (160, None):
        store.commit([AdvanceSchedule(S1, ScheduledTime("digest", "id-digest", 100, next_s))])
    found = digest(store)
    assert (found.due_s, found.paused, found.turns) == (None, True, 0)
    store.commit([SetDueTime(S1, "digest", "id-digest", 200, paused=False), SetDueTime(S1, "digest", "other", 1, paused=True)])
    found = digest(store)
    assert (found.due_s, found.paused) == (200, False)


def test_a_schedule_is_removed_by_its_id(store: SqlSessionStore) -> None:
    store.commit([AddSchedule(S1, row("digest", 100))])
    store.commit([RemoveSchedule(S1, "digest", "another")])
    assert names(store.schedules(APP, "ada")) == ["digest"]
    for _ in range(2):
        store.commit([RemoveSchedule(S1, "digest", "id-digest")])
        assert store.schedules(APP, "ada") == []


def test_what_is_due_is_found_by_the_index(url: str, store: SqlSessionStore) -> None:
    store.commit([AddSchedule(S1, row(f"n-{number:04}", number or None)) for number in range(2_000)])
    database = Database(url)
    database.open()
    for after_another in (False, True):
        plan = plan_of(database, queries.next_schedules(after_another=after_another))
        assert "raygrove_schedules_due" in plan
        assert "TEMP B-TREE" not in plan
        assert "Sort" not in plan
    database.close()


def test_the_schedules_of_a_user_are_read_from_a_name_on(url: str, store: SqlSessionStore) -> None:
    rows = [row(f"n-{number:04}", None) for number in range(2_000)]
    store.commit([AddSchedule(S1, each) for each in rows])
    assert store.schedules(APP, "ada", limit=3, after=("ada", "n-1000")) == rows[1_001:1_004]
    assert store.schedules(APP, "ada", after=("aaron", "z")) == rows
    assert store.schedules(APP, "ada", after=("bob", "")) == []
    database = Database(url)
    database.open()
    assert "name>" in plan_of(database, queries.schedule_list(of_user=True, after_another=True)).replace(" ", "")
    database.close()


def plan_of(database: Database, query: Select[*tuple[Any, ...]]) -> str:
    """How the database carries out a query."""
    given = {"app": APP, "user": "ada", "limit": 10, "after_due_s": 700, "after_user": "ada", "after_name": "n"}
    if not database.is_sqlite:
        with database.transaction() as transaction:
            transaction.connection.execute(text("ANALYZE raygrove_schedules"))
    with database.snapshot() as connection:
        compiled: Any = query.compile(dialect=connection.dialect)
        explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
        bound = compiled.construct_params(given)
        values = tuple(bound[name] for name in compiled.positiontup) if compiled.positional else bound
        return " ".join(map(str, connection.exec_driver_sql(explain + str(compiled), values)))


def test_schedules_are_copied_exported_and_imported_with_the_store(url: str, store: SqlSessionStore, tmp_path: Path) -> None:
    rows = [row("digest", 100), row("paused", None), row("digest", 5, OTHER)]
    store.commit([AddSchedule(each.key, each) for each in rows])
    store.close()
    copied = f"sqlite:///{tmp_path}/copy.db"
    copy_store(WholeStore(url, f"sqlite:///{tmp_path}/memory.db"), WholeStore(copied))
    lines = tmp_path / "store.jsonl"
    with lines.open("wb") as file, WholeStore(copied).read() as found:
        write_lines(file, found)
    with lines.open("rb") as file:
        WholeStore(f"sqlite:///{tmp_path}/imported.db").write(read_lines(file, "store.jsonl"))
    assert b'"every_s":60' in lines.read_bytes()
    again = SqlSessionStore(f"sqlite:///{tmp_path}/imported.db")
    again.open()
    assert again.schedules(APP, None) == sorted(rows, key=lambda each: (each.key.user, each.name))
    again.close()
