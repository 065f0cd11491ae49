"""Pruning in the Session actor: what is old goes whole, what is in use stays, and no interruption loses or doubles anything."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from actors import Content, Event, Part
from actors.errors import StoreError
from actors.interfaces.stores import AddEvent, CreateSession, HideEvents, PutState, Write
from actors.layers.retention.messages import PruneSessions
from actors.layers.stores.parts import SessionStore
from actors.layers.stores.records import OldSession
from actors.layers.users import RemoveUser
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import SessionKey, SessionPlace
from runtime.engine.interface import Engine
from runtime.engine.retention import PrunedSessions, count_old_sessions, prune_sessions
from runtime.stores.safe_artifacts import SafeArtifactStore
from runtime.stores.sql import schema
from runtime.stores.sql.database import Database
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, OTHER, FailingStore, SessionFixture, settled
from tests.support.inside import HOLD_S
from tests.support.sharded_runtimes import own_tables
from tests.support.stores.plain_session_store import PlainStore
from tests.support.stores.store_writes import event, turn
from tests.support.tries import tries

APP = KEY.app
OF_SESSIONS = [table for table in schema.metadata.tables.values() if "sid" in table.c]


class Artifacts:
    """As many artifacts of sessions as it is told; deleting those of more than `left` sessions fails."""

    def __init__(self, of: dict[SessionKey, int]) -> None:
        self.of = dict(of)
        self.left: int | None = None

    def delete_session(self, key: SessionKey) -> int:
        if self.left is not None:
            if self.left == 0:
                raise StoreError("the bucket is away")
            self.left -= 1
        return self.of.pop(key, 0)

    def delete_user(self, *_: Any) -> int:
        raise NotImplementedError


def pruning(desk: SessionFixture, artifacts: Artifacts, before_s: float, user: str | None = None) -> Any:
    return prune_sessions(desk.ref.shards, SafeArtifactStore(cast(Any, artifacts)), APP, user, before_s)


def asked(before_s: float, *done: SessionKey, pruner: str = "", is_given_up: bool = False) -> PruneSessions:
    return PruneSessions(app=APP, before_s=before_s, done=done, pruner=pruner, is_given_up=is_given_up)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], type[FailingStore]]]:
    """Makes the class of a store with nothing in it, whose instances share a database."""
    number = iter(range(1_000_000))

    def made() -> type[FailingStore]:
        folder = tmp_path / f"{next(number)}"
        url = f"sqlite:///{folder}/s.db" if request.param == "sqlite" else own_tables(request.getfixturevalue("server"))
        folder.mkdir()

        class Here(FailingStore):
            URL = url

            def __init__(self, _: str) -> None:
                super().__init__(url)

        return Here

    yield made
    shutil.rmtree(tmp_path, ignore_errors=True)


TIMES = st.sampled_from([0, 10, 20])

SESSIONS = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ada", "bob"]),
        "created_s": TIMES,
        "written_s": TIMES,
        "turns": st.lists(st.sampled_from(["finished", "failed", "paused", "running", "rewound pause"]), max_size=3),
        "later_event_s": st.none() | TIMES,
        "artifacts": st.integers(0, 2),
    }
)


def filled(store: FailingStore, sessions: list[dict[str, Any]]) -> dict[SessionKey, dict[str, Any]]:
    store.open()
    found = {}
    for number, each in enumerate(sessions):
        key = SessionKey(APP, each["user"], f"s{number}")
        writes: list[Write] = [CreateSession(key, float(each["created_s"])), PutState(key, {"n": number})]
        seq = 0
        for at, status in enumerate(each["turns"]):
            seq += 1
            writes.append(dated(key, seq, each["written_s"], f"e-{at}"))
            stored = "paused" if status == "rewound pause" else status
            writes.append(turn(key, f"e-{at}", stored, first_seq=seq, at_s=each["written_s"], last_seq=seq))
            if status == "rewound pause":
                writes.append(HideEvents(key, seq, seq))
        if each["later_event_s"] is not None:
            writes.append(dated(key, seq + 1, each["later_event_s"], "e-later"))
        store.commit(writes)
        found[key] = each
    return found


def dated(key: SessionKey, seq: int, at_s: float, invocation_id: str) -> Write:
    """An event of a time. It is a message of the user that the Session actor can read."""
    said = Event(
        id=f"id-{seq}",
        invocation_id=invocation_id,
        author="user",
        timestamp=float(at_s),
        content=Content(role="user", parts=[Part(text=f"{seq}")]),
    )
    write = event(key, seq, calls=(f"c-{seq}",), raw=encode(said), invocation_id=invocation_id)
    head = msgspec.structs.replace(write.row.head, timestamp=float(at_s))
    return AddEvent(key, msgspec.structs.replace(write.row, head=head))


def is_old(given: dict[str, Any], before_s: float) -> bool:
    times = [given["created_s"], given["later_event_s"]]
    if given["turns"]:
        times.append(given["written_s"])
    return all(each is None or each < before_s for each in times) and not {"paused", "running"} & set(given["turns"])


def seen(store: FailingStore, key: SessionKey) -> Any:
    return store.session(key), store.events(key), [store.turn(key, f"e-{at}") for at in range(3)], store.call(key, "c-1")


def check_whole(store: FailingStore, before: dict[SessionKey, Any], artifacts: Artifacts, of: dict[SessionKey, int]) -> None:
    """Each session is there as it was, with its artifacts, or is gone with all of its rows."""
    there = {row.key for row in store.sessions(APP, None)}
    for key in there:
        assert seen(store, key) == before[key]
        assert artifacts.of.get(key) == of.get(key)
    database = Database(store.URL)  # type: ignore[attr-defined]
    database.open()
    sids = {row[0] for row in database.rows(select(schema.sessions.c.sid), {})}
    for table in OF_SESSIONS:
        assert {row[0] for row in database.rows(select(table.c.sid).distinct(), {})} <= sids
    if not there:
        assert all(database.rows(select(func.count()).select_from(table), {})[0][0] == 0 for table in OF_SESSIONS)
    database.close()


@settings(
    max_examples=tries(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
@given(
    sessions=st.lists(SESSIONS, min_size=1, max_size=7),
    before_s=st.sampled_from([0, 5, 10, 15, 21]),
    user=st.sampled_from([None, "ada"]),
    interruptions=st.lists(st.integers(0, 3), max_size=2),
    batch=st.integers(1, 3),
    batch_events=st.integers(1, 4),
    restarts=st.booleans(),
)
def test_what_remains_is_what_the_rule_says_whatever_interrupts(
    make_store: Callable[[], type[FailingStore]],
    sessions: list[dict[str, Any]],
    before_s: int,
    user: str | None,
    interruptions: list[int],
    batch: int,
    batch_events: int,
    restarts: bool,
) -> None:
    made = make_store()
    store = made("")
    given = filled(store, sessions)
    before = {key: seen(store, key) for key in given}
    of = {key: each["artifacts"] for key, each in given.items() if each["artifacts"]}
    artifacts = Artifacts(of)
    gone = {key for key, each in given.items() if is_old(each, before_s) and user in (None, key.user)}

    async def play(desk: SessionFixture) -> None:
        engine = cast(Engine, SimpleNamespace(session=desk.ref))
        counted = await count_old_sessions(engine, APP, user, before_s)
        assert counted.sessions == len(gone)
        assert counted.turns == sum(len(given[key]["turns"]) for key in gone)
        assert counted.events == sum(before[key][0].head_seq for key in gone)
        told = []
        for left in interruptions:
            artifacts.left = left
            try:
                told.append(await pruning(desk, artifacts, before_s, user))
            except StoreError:
                check_whole(store, before, artifacts, of)
            if restarts:
                await desk.ref.stop()
                desk = SessionFixture(desk.folder, store=made)
        artifacts.left = None
        told.append(await pruning(desk, artifacts, before_s, user))
        if not interruptions:
            assert told == [PrunedSessions(**{**counted_fields(counted), "artifacts": sum(of.get(key, 0) for key in gone)})]
        await desk.ref.stop()

    with pytest.MonkeyPatch.context() as patch:
        inside.change(patch, "pruning", BATCH=batch, BATCH_EVENTS=batch_events)
        asyncio.run(play(SessionFixture(Path("/nowhere"), store=made)))
    store.close()
    store.open()
    assert {row.key for row in store.sessions(APP, None)} == set(given) - gone
    check_whole(store, before, artifacts, of)
    assert artifacts.of == {key: count for key, count in of.items() if key not in gone}
    assert store.removals(APP, None) == []
    store.close()


def counted_fields(counted: PrunedSessions) -> dict[str, int]:
    return {"sessions": counted.sessions, "events": counted.events, "turns": counted.turns}


LATER = 1e12
"""Before which everything was written."""


async def test_a_batch_is_named_again_when_its_reply_was_lost(desk: SessionFixture) -> None:
    for key in (KEY, OTHER):
        await desk.turn("e-1", "hello", key=key)
    first = (await desk.ref.ask(asked(LATER))).removed
    assert sorted((each.key, each.events, each.turns) for each in first) == [(KEY, 2, 1), (OTHER, 2, 1)]
    restarted = await desk.restarted()
    assert (await restarted.ref.ask(asked(LATER))).removed == first


async def test_a_turn_that_runs_or_waits_in_line_keeps_its_session(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    await desk.open("e-2")
    await desk.turn("e-1", "hello", key=OTHER)
    assert [each.key for each in (await desk.ref.ask(asked(LATER))).removed] == [OTHER]
    await desk.close("e-2")
    assert [each.key for each in (await desk.ref.ask(asked(LATER, OTHER))).removed] == [KEY]


class SlowStore(FailingStore):
    """Tells the first time which sessions are old, and then waits until it may go on."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.has_told, self.may_go_on = threading.Event(), threading.Event()

    def old_sessions(
        self, app: str, user: str | None, before_s: float, *, limit: int, after: SessionPlace | None = None
    ) -> list[OldSession]:
        found = super().old_sessions(app, user, before_s, limit=limit, after=after)
        self.has_told.set()
        self.may_go_on.wait(20)
        return found


async def test_a_turn_that_begins_when_its_session_was_found_to_be_old_keeps_it(tmp_path: Path) -> None:
    desk = SessionFixture(tmp_path, store=SlowStore)
    store = cast(SlowStore, desk.store)
    await desk.turn("e-1", "hello")
    pruning = asyncio.create_task(desk.ref.ask(asked(LATER)))
    assert await asyncio.to_thread(store.has_told.wait, 20)
    opening = asyncio.create_task(desk.ask_to_open("e-2"))
    await settled()
    store.may_go_on.set()
    assert (await pruning).removed == []
    assert isinstance(await opening, p.TurnBegun)
    assert desk.positions() == [1, 2, 3]


class PausingStore(FailingStore):
    """A turn pauses when it has told which sessions are old, with an old time, as by the clock of another machine."""

    def old_sessions(
        self, app: str, user: str | None, before_s: float, *, limit: int, after: SessionPlace | None = None
    ) -> list[OldSession]:
        found = super().old_sessions(app, user, before_s, limit=limit, after=after)
        self.commit([turn(KEY, "e-paused", "paused")])
        return found


async def test_a_turn_that_has_paused_when_its_session_was_found_to_be_old_keeps_it(tmp_path: Path) -> None:
    desk = SessionFixture(tmp_path, store=PausingStore)
    await desk.turn("e-1", "hello")
    assert (await desk.ref.ask(asked(LATER))).removed == []
    assert desk.positions() == [1, 2]


async def test_those_that_follow_a_pruned_session_are_told(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    await desk.ref.subscribe(p.Subscribe(subscriber="me", key=KEY, invocation_id=WHOLE_SESSION, after_seq=2))
    await desk.ref.ask(asked(LATER))
    _, _, ends = await desk.news("me")
    assert ends == ["Failed"]


async def test_a_deleted_user_leaves_no_note_of_pruned_sessions(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    await desk.ref.ask(asked(LATER))
    assert len(desk.store.removals(APP, KEY.user)) == 1
    await desk.ref.ask(RemoveUser(app=APP, user=KEY.user))
    assert desk.store.removals(APP, None) == []


class Unpruned(PlainStore):
    """Without a method to find old sessions."""

    old_sessions = SessionStore.old_sessions


async def test_a_store_that_cannot_be_pruned_is_told(tmp_path: Path) -> None:
    desk = SessionFixture(tmp_path)
    desk.actor._access.store = Unpruned()
    with pytest.raises(StoreError, match="Unpruned cannot be pruned: it has no method 'old_sessions'"):
        await desk.ref.ask(asked(LATER))


@pytest.mark.parametrize("fails", [False, True], ids=["has-deleted", "gives-up"])
async def test_of_two_that_prune_at_once_the_slower_one_deletes_no_artifact_of_a_session_begun_anew(
    desk: SessionFixture, fails: bool
) -> None:
    await desk.turn("e-1", "hello")
    for pruner in ("one", "two"):
        assert [each.key for each in (await desk.ref.ask(asked(LATER, pruner=pruner))).removed] == [KEY]
    opening = asyncio.create_task(desk.ask_to_open("e-2"))
    of_one = await desk.ref.ask(asked(LATER, KEY, pruner="one"))
    assert (of_one.removed, of_one.is_last) == ([], True)
    await desk.turn("e-1", "hello", key=OTHER)
    assert not opening.done(), "the other one may still be deleting"
    last = asked(LATER, pruner="two", is_given_up=True) if fails else asked(-1.0, KEY, pruner="two")
    assert not (await desk.ref.ask(last)).removed
    assert isinstance(await opening, p.TurnBegun)
    assert desk.store.removals(APP, None) == []


async def test_of_two_that_prune_at_once_one_asks_while_the_other_has_just_removed_a_session(
    desk: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.open()
    await desk.close()
    is_on_disk, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow_write(write: Callable[..., Any], *given: Any) -> None:
        await write(*given)
        is_on_disk.set()
        await may_go_on.wait()

    inside.around(monkeypatch, "commit a change of a log", slow_write)
    removing = asyncio.create_task(desk.ref.ask(asked(LATER, pruner="one")))
    await is_on_disk.wait()
    assert (await desk.ref.ask(asked(LATER, pruner="two"))).removed == []
    may_go_on.set()
    assert [each.key for each in (await removing).removed] == [KEY]


async def test_of_two_that_prune_at_once_one_is_lost_and_the_session_begins_anew_after_a_while(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    for pruner in ("one", "two"):
        await desk.ref.ask(asked(LATER, pruner=pruner))
    await desk.ref.ask(asked(LATER, KEY, pruner="one"))
    assert [each.key for each in desk.store.removals(APP, None)] == [KEY]
    desk.clock.now_s = HOLD_S
    await desk.open("e-2")
    assert (await desk.ref.ask(asked(-1.0, pruner="three"))).removed == []
    assert desk.store.removals(APP, None) == []
    assert desk.positions() == [1]
