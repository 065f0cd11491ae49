"""A message that begins a session: the session is stored with it, or not at all, and nothing sees it before."""

from __future__ import annotations

import asyncio
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
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from tests.support import inside
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
