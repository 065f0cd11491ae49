"""Archiving in the Session actor and its store: what the rule says is moved, and all answers are as before."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

from actors.errors import StoreError
from actors.interfaces.stores import AddEvent, CreateSession, HideEvents, RemoveSession, Write
from actors.layers.retention.messages import ArchiveOldEvents
from actors.layers.stores.records import ArchiveEvents
from actors.messages.session import SessionKey
from runtime.stores.sql import archive as blocks
from runtime.stores.sql import schema
from runtime.stores.sql.archive import move_into_archive
from runtime.stores.sql.database import Database
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.store_writes import event, turn
from tests.support.tries import tries

APP = KEY.app
LATER = 1e12
"""Before which everything was written."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes the URL of a store with nothing in it."""
    number = iter(range(1_000_000))

    def made() -> str:
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path}/{next(number)}.db"
        return own_tables(request.getfixturevalue("server"))

    return made


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest event is kept only; blocks, transactions and replies are small."""
    inside.change(monkeypatch, "archiving", KEPT=1, TRANSACTIONS=2, SESSIONS=2)
    monkeypatch.setattr("runtime.stores.sql.sessions.MOVED_EVENTS", 3)
    monkeypatch.setattr(blocks, "BLOCK_EVENTS", 2)


def archived(url: str) -> Iterator[tuple[str, int]]:
    """The sessions and positions of all events whose bytes are in the archive."""
    database = Database(url)
    database.open()
    of = schema.sessions.join(schema.events, schema.sessions.c.sid == schema.events.c.sid)
    query = select(schema.sessions.c.session, schema.events.c.seq).select_from(of).where(schema.events.c.raw == schema.ARCHIVED)
    found = [(session, seq) for session, seq in database.rows(query, {})]
    database.close()
    return iter(sorted(found))


EVENTS = st.lists(
    st.tuples(st.sampled_from([0, 10, 20]), st.sampled_from(["finished", "finished", "paused", "running", "rewound"])), max_size=9
)


@settings(
    max_examples=tries(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
@given(given_events=EVENTS, before_s=st.sampled_from([0, 5, 15, 25]), keep=st.integers(0, 3), last=st.integers(1, 9))
@pytest.mark.usefixtures("few")
def test_what_is_archived_is_the_log_up_to_the_first_event_that_stays(
    make_url: Callable[[], str], given_events: list[tuple[int, str]], before_s: int, keep: int, last: int
) -> None:
    url = make_url()
    store = SqlSessionStore(url)
    store.open()
    writes: list[Write] = [CreateSession(KEY, 1.0)]
    for seq, (_, status) in enumerate(given_events, 1):
        write = event(KEY, seq, f"author-{seq % 3}", calls=(f"c-{seq % 4}",), undo=b"" if seq % 2 else b"u%d" % seq)
        writes += [write, turn(KEY, f"e-{seq}", "finished" if status == "rewound" else status, first_seq=seq)]
        if status == "rewound":
            writes.append(HideEvents(KEY, seq, seq))
    store.commit([dated(write, given_events) for write in writes])
    before = answers(store)
    moved: list[int] = []
    while found := store.archivable(KEY, before_s, keep=keep):
        store.commit([ArchiveEvents(KEY, found[-1])])
        moved += found
        assert answers(store) == before
    stays = [
        seq
        for seq, (at_s, status) in enumerate(given_events, 1)
        if at_s >= before_s or status in ("paused", "running") or seq > len(given_events) - keep
    ]
    assert moved == list(range(1, min(stays, default=len(given_events) + 1)))
    assert list(archived(url)) == [(KEY.session, seq) for seq in moved]
    store.commit([HideEvents(KEY, last, 9), event(KEY, 10)])
    assert [seq for seq, _ in store.events(KEY)] == [*(seq for seq, _ in before[0] if seq < last), 10]
    store.commit([RemoveSession(KEY)])
    assert list(archived(url)) == []
    assert store.events(KEY) == []
    store.close()


def dated(write: Write, given_events: list[tuple[int, str]]) -> Write:
    if not isinstance(write, AddEvent):
        return write
    head = msgspec.structs.replace(write.row.head, timestamp=float(given_events[write.row.seq - 1][0]))
    return AddEvent(write.key, msgspec.structs.replace(write.row, head=head))


def answers(store: SqlSessionStore) -> tuple[Any, ...]:
    """All that can be asked of the session."""
    return (
        store.events(KEY),
        store.events(KEY, after_seq=1, limit=3),
        store.events(KEY, limit=2, newest=True, before_seq=6),
        store.events(KEY, after_s=10.0),
        store.undos(KEY, 1),
        store.session(KEY),
        store.authors(KEY, 6),
        [store.call(KEY, f"c-{number}") for number in range(4)],
        [store.turn(KEY, f"e-{number}") for number in range(1, 10)],
        [store.place(KEY, f"id-{number}") for number in range(1, 10)],
    )


def url_of(desk: SessionFixture) -> str:
    return f"sqlite:///{desk.folder}/sessions.db"


async def archive(desk: SessionFixture, **more: Any) -> dict[SessionKey, int]:
    """Archive all that may be, and count it by session."""
    found: dict[SessionKey, int] = {}
    request, is_last = ArchiveOldEvents(app=APP, **{"before_s": LATER, **more}), False
    while not is_last:
        reply = await desk.ref.ask(request)
        for key, count in reply.events:
            found[key] = found.get(key, 0) + count
        request = ArchiveOldEvents(app=APP, after=reply.after, **{"before_s": LATER, **more})
        is_last = reply.is_last
    return found


@pytest.mark.usefixtures("few")
async def test_sessions_are_archived_in_small_transactions_and_read_as_before(desk: SessionFixture) -> None:
    keys = [KEY, OTHER, SessionKey(APP, "bob", "s1"), SessionKey(APP, "bob", "s2"), SessionKey(APP, "eve", "s1")]
    for key in keys:
        for number in range(6):
            await desk.turn(f"e-{number}", "hello", key=key, state={"n": number})
    before = {key: await desk.log(key) for key in keys}
    assert await archive(desk, dry_run=True) == dict.fromkeys(keys, 11)
    assert list(archived(url_of(desk))) == []
    assert await archive(desk, user="bob") == {key: 11 for key in keys if key.user == "bob"}
    commits = desk.store.commits
    assert await archive(desk) == {key: 11 for key in keys if key.user != "bob"}
    assert desk.store.commits - commits == 3 * 4
    assert await archive(desk) == {}
    heir = await desk.restarted()
    assert {key: await heir.log(key) for key in keys} == before
    await heir.turn("e-7", "and on")
    assert (await heir.log())[:12] == before[KEY]
    assert await archive(heir) == {KEY: 2}


@pytest.mark.usefixtures("few")
async def test_a_move_that_fails_in_the_middle_has_moved_nothing(desk: SessionFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        await desk.turn(f"e-{number}", "hello")
    before, real = await desk.log(), move_into_archive

    def half_done(*given: Any) -> None:
        real(*given)
        raise OSError("the power went")

    monkeypatch.setattr("runtime.stores.sql.commit.move_into_archive", half_done)
    with pytest.raises(StoreError, match="the power went"):
        await archive(desk)
    monkeypatch.undo()
    assert list(archived(url_of(desk))) == []
    heir = await desk.restarted()
    assert await heir.log() == before
    await heir.turn("e-3", "hello")


@pytest.mark.parametrize("damage", [b"", zlib.compress(b"\xc1"), None])
@pytest.mark.usefixtures("few")
async def test_a_damaged_archive_is_told_with_its_session(damage: bytes | None, desk: SessionFixture) -> None:
    for number in range(3):
        await desk.turn(f"e-{number}", "hello")
    await archive(desk)
    database = Database(url_of(desk))
    database.open()
    with database.transaction() as transaction:
        change = text("DELETE FROM raygrove_archive" if damage is None else "UPDATE raygrove_archive SET raw = :raw")
        transaction.connection.execute(change, {} if damage is None else {"raw": damage})
    database.close()
    with pytest.raises(StoreError, match=r"session 's1'.* (lacks 5 events from 1 on|is damaged)"):
        await desk.log()


async def test_the_newest_events_of_a_session_stay(desk: SessionFixture) -> None:
    for number in range(inside.KEPT // 2 + 2):
        await desk.turn(f"e-{number}", "hello")
    assert await archive(desk) == {KEY: 4}


@pytest.mark.parametrize("sizes", [[], [1], [10] * 700, [300_000, 5, 300_000], [100_000] * 5])
def test_blocks_have_all_events_in_order_and_are_small(sizes: list[int]) -> None:
    events = [blocks.ArchivedEvent(seq, bytes(size), b"undo") for seq, size in enumerate(sizes, 1)]
    made = list(blocks.in_blocks(events))
    assert [event for block in made for event in blocks.unpacked(blocks.packed(block))] == events
    for block in made:
        assert len(block) <= blocks.BLOCK_EVENTS
        assert len(block) == 1 or sum(len(each.raw) for each in block) <= blocks.BLOCK_BYTES
