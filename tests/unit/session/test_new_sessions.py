"""A turn of a session that is not in memory: it is read once, and a new one is stored with its message, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.errors import (
    SessionExistsError,
    SessionNotFoundError,
    StoreConflictError,
    StoreError,
)
from actors.interfaces.stores import CreateSession, SessionRow, VersionedState, Write
from actors.layers.users import HoldUser, ReleaseUser
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from tests.support import inside
from tests.support.any_message import decode_message
from tests.support.fixtures.session_fixture import KEY, FailingStore, HeldCommits, SessionFixture, settled, state_of

Asked = list[Callable[..., Any]]


class CountingStore(FailingStore):
    """Counts what it is asked."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: Counter[str] = Counter()

    def session(self, key: SessionKey) -> SessionRow | None:
        self.asked["session"] += 1
        return super().session(key)

    def changed_states(self, app: str, known: Mapping[str, int]) -> Mapping[str, VersionedState]:
        self.asked["states"] += 1
        return super().changed_states(app, known)

    def commit(self, writes: Sequence[Write]) -> None:
        self.asked["commit"] += 1
        super().commit(writes)


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the store's thread is asked for."""
    return inside.asked_of_store(monkeypatch)


@pytest.mark.parametrize("may_answer_task", [False, True])
async def test_the_first_turn_of_a_session_reads_the_store_once_and_writes_twice(
    tmp_path: Path, hops: Asked, may_answer_task: bool
) -> None:
    session = SessionFixture(tmp_path, store=CountingStore)
    assert isinstance(session.store, CountingStore)
    await session.turn("e-1", key=SessionKey("app", "bob", "s"))
    hops.clear()
    session.store.asked.clear()
    # A driver that saw no reply may ask again, and then the turn is looked for.
    await session.open("e-2", repeatable=True, may_answer_task=may_answer_task)
    await session.say(session.event("root", "one", turn="e-2"), turn="e-2", selected="root", outcome=p.Finished(agent="root"))
    assert (session.store.asked, len(hops)) == ({"session": 1, "states": 1, "commit": 2}, 3)
    assert await session.log() == [(1, "user", "hi"), (2, "root", "one")]


async def test_a_session_that_left_memory_is_read_in_one_go(tmp_path: Path, hops: Asked) -> None:
    before = SessionFixture(tmp_path)
    await before.turn("e-1", "one", state={"a": 1, "user:u": 2})
    session = await before.restarted()
    hops.clear()
    assert await session.state() == {"a": 1, "user:u": 2}
    assert len(hops) == 1


class Beginning:
    """A turn that begins a session whose commit is held up."""

    def __init__(self, session: SessionFixture) -> None:
        self.session = session
        self.held = HeldCommits(session.store)
        event = encode(session.event("user", "hi", turn="e-1", state_delta={"a": 1, "user:u": 2}))
        message = p.OpenTurn(key=KEY, invocation_id="e-1", event=event, runner="runner", subscriber="d", auto_create=True)
        self.opening = asyncio.create_task(session.ref.open_turn(message))

    async def reached(self) -> None:
        """Wait until the commit is held up."""
        while not self.held.is_reached.is_set():
            await settled()


async def test_readers_see_the_session_once_it_is_on_disk(session: SessionFixture) -> None:
    beginning = Beginning(session)
    await beginning.reached()
    readers: list[asyncio.Task[Any]] = [
        asyncio.create_task(session.ref.ask(p.GetSessionRequest(key=KEY))),
        asyncio.create_task(session.ref.ask(p.ListSessionsRequest(app="app", user="ada"))),
        asyncio.create_task(session.state()),
        asyncio.create_task(session.ref.ask(p.CreateSessionRequest(key=KEY))),
        asyncio.create_task(session.ref.subscribe(p.Subscribe(subscriber="d2", key=KEY, invocation_id="e-1"))),
    ]
    await settled()
    assert not any(reader.done() for reader in readers)
    beginning.held.let_go()
    await asyncio.wait(readers)
    found, listed, state, status = (reader.result() for reader in (*readers[:3], readers[4]))
    assert (found.session.key, [each.key for each in listed.sessions]) == (KEY, [KEY])
    assert (state, status) == ({"a": 1, "user:u": 2}, "running")
    assert isinstance(readers[3].exception(), SessionExistsError)


async def test_a_session_that_cannot_be_stored_has_never_been_there(session: SessionFixture) -> None:
    beginning = Beginning(session)
    await beginning.reached()
    reading = asyncio.create_task(session.ref.ask(p.GetSessionRequest(key=KEY)))
    following = asyncio.create_task(session.ref.subscribe(p.Subscribe(subscriber="d2", key=KEY, invocation_id="e-1")))
    await settled()
    session.store.failures = 10
    beginning.held.let_go()
    with pytest.raises(StoreError, match="disk is full"):
        await beginning.opening
    assert (await reading).session is None
    with pytest.raises(SessionNotFoundError):
        await following
    assert (await session.counts())["sessions_in_memory"] == 0
    session.store.failures = 0
    begun = await session.open("e-2")
    # Nor has the user the state that came with it.
    assert (begun.seq, state_of(begun)) == (1, {})


async def test_a_message_that_was_sent_twice_begins_one_turn(session: SessionFixture) -> None:
    event = encode(session.event("user", "hi"))
    message = p.OpenTurn(key=KEY, invocation_id="e-1", event=event, runner="runner", auto_create=True, repeatable=True)
    first, again = await asyncio.gather(session.ref.open_turn(message), session.ref.open_turn(message))
    assert isinstance(first, p.TurnBegun)
    # The Runner that has begun it knows whether it runs.
    assert again == p.TurnJoined(invocation_id="e-1", seq=1, is_lost=True)
    assert session.positions() == [1]


async def test_a_session_that_exists_elsewhere_is_a_conflict_and_is_found_afterwards(session: SessionFixture) -> None:
    beginning = Beginning(session)
    await beginning.reached()
    elsewhere = FailingStore(f"sqlite:///{session.folder}/sessions.db")
    elsewhere.open()
    elsewhere.commit([CreateSession(KEY, 1.0)])
    elsewhere.close()
    beginning.held.let_go()
    with pytest.raises(StoreConflictError, match="it was created at the same time"):
        await beginning.opening
    assert session.positions() == []
    assert (await session.open("e-2")).generation == "1.0/0"
    assert await session.log() == [(1, "user", "hi")]


class HeldReads(FailingStore):
    """Holds up the reads of sessions while `may_go_on` is not set."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.groups: list[Sequence[SessionKey]] = []

    def may_exist(self, keys: Sequence[SessionKey]) -> Sequence[SessionKey]:
        self.may_go_on.wait(20)
        self.groups.append(keys)
        return super().may_exist(keys)

    def session(self, key: SessionKey) -> Any:
        self.may_go_on.wait(20)
        return super().session(key)


@pytest.fixture
def session(tmp_path: Path) -> SessionFixture:
    """A Session actor whose reads can be held up."""
    return SessionFixture(tmp_path, store=HeldReads)


def reads(session: SessionFixture) -> HeldReads:
    assert isinstance(session.store, HeldReads)
    return session.store


def opening(session: SessionFixture, turn: str, key: SessionKey = KEY, **more: Any) -> p.OpenTurn:
    event = encode(session.event("user", turn, turn=turn))
    given = {"auto_create": True, "runner": "runner", "subscriber": "d", **more}
    return p.OpenTurn(key=key, invocation_id=turn, event=event, **given)


def asked(session: SessionFixture, message: p.OpenTurn) -> asyncio.Task[p.Message]:
    """The reply to a message."""

    async def reply() -> p.Message:
        return decode_message(await session.actor.receive(encode(message)))

    return asyncio.create_task(reply())


async def test_new_sessions_that_are_asked_for_at_once_are_read_and_stored_together(session: SessionFixture) -> None:
    held = HeldCommits(session.store)
    keys = [SessionKey("app", f"user-{number}", "s") for number in range(20)]
    taken = [asked(session, opening(session, f"e-{number}", key)) for number, key in enumerate(keys)]
    while not held.is_reached.is_set():
        await settled()
    assert not any(each.done() for each in taken)
    held.let_go()
    assert all([isinstance(await each, p.TurnBegun) for each in taken])
    # The first one is read alone, and those that come meanwhile together.
    assert [len(group) for group in reads(session).groups] == [19]
    assert (await session.counts())["commits"] <= 2
    assert {row.key for row in session.store.sessions("app", None)} == set(keys)


async def test_later_requests_of_the_session_come_after_the_first(session: SessionFixture) -> None:
    await session.turn("e-1", "one")
    await session.open("e-2")
    await session.ref.stop()
    again = SessionFixture(session.folder, store=HeldReads)
    reads(again).may_go_on.clear()
    # The first one finds a turn that is open; those behind it wait until that is decided.
    first = asked(again, opening(again, "e-3"))
    others = [asked(again, opening(again, f"e-{number}")) for number in (4, 5)]
    await settled()
    assert not any(other.done() for other in others)
    reads(again).may_go_on.set()
    assert isinstance(await first, p.ResumeRequired)
    assert [type(await other) for other in others] == [p.ResumeRequired] * 2


async def test_messages_of_a_new_session_are_answered_in_their_order(session: SessionFixture) -> None:
    reads(session).may_go_on.clear()
    first = asked(session, opening(session, "e-1"))
    others = [asked(session, opening(session, f"e-{number}")) for number in (2, 3)]
    reading = asyncio.create_task(session.ref.ask(p.GetSessionRequest(key=KEY)))
    await settled()
    reads(session).may_go_on.set()
    begun = await first
    assert isinstance(begun, p.TurnBegun)
    session._generations[KEY] = begun.generation
    assert (await reading).session is not None
    for number, other in ((2, others[0]), (3, others[1])):
        await session.close(f"e-{number - 1}")
        assert isinstance(await other, p.TurnBegun)
    assert await session.log() == [(1, "user", "e-1"), (2, "user", "e-2"), (3, "user", "e-3")]


async def test_a_turn_that_came_before_a_deletion_begins_and_a_later_one_waits(session: SessionFixture) -> None:
    reads(session).may_go_on.clear()
    first = asked(session, opening(session, "e-1"))
    await settled()
    holding = asyncio.create_task(session.ref.ask(HoldUser(app="app", user="ada")))
    await settled()
    second = asked(session, opening(session, "e-2"))
    reads(session).may_go_on.set()
    begun = await first
    assert isinstance(begun, p.TurnBegun)
    session._generations[KEY] = begun.generation
    await session.close("e-1")
    await settled()
    assert (await holding).is_held
    assert await session.log() == [(1, "user", "e-1")]
    assert not second.done()
    await session.ref.ask(ReleaseUser(app="app", user="ada"))
    assert isinstance(await second, p.TurnBegun)
    assert await session.log() == [(1, "user", "e-1"), (2, "user", "e-2")]


async def test_a_runner_that_was_replaced_while_the_session_was_read_begins_nothing(session: SessionFixture) -> None:
    reads(session).may_go_on.clear()
    first = asked(session, opening(session, "e-1", runner="runner/gone"))
    await session.ref.ask(p.AnnounceRunner(runner="runner/heir", number=0))
    reads(session).may_go_on.set()
    assert isinstance(await first, p.NotLeader)
    assert session.positions() == []


async def test_what_is_refused_or_cannot_be_read_leaves_the_session_to_the_next(session: SessionFixture) -> None:
    refused = await asked(session, opening(session, "e-1", SessionKey("app", "ada", " s")))
    assert isinstance(refused, p.ErrorReply)
    assert refused.error == "InvalidIdError"
    unread = asked(session, opening(session, "e-1"))

    def fail(key: SessionKey) -> Any:
        raise StoreError("it cannot be read")

    reads(session).session = fail  # type: ignore[method-assign]
    error = await unread
    assert isinstance(error, p.ErrorReply)
    assert error.error == "StoreError"
    del reads(session).session
    assert isinstance(await asked(session, opening(session, "e-2")), p.TurnBegun)
    assert session.positions() == [1]


async def test_a_session_that_cannot_be_stored_is_created_by_the_next_message(session: SessionFixture) -> None:
    session.store.failures = 2
    first = asked(session, opening(session, "e-1"))
    second = asked(session, opening(session, "e-2"))
    error = await first
    assert isinstance(error, p.ErrorReply)
    assert "disk is full" in str(error.args)
    assert (await session.counts())["sessions_in_memory"] == 0
    assert isinstance(await second, p.TurnBegun)
    assert await session.log() == [(1, "user", "e-2")]
