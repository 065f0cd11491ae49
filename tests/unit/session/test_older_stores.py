"""The store goes back to an older copy of itself while a Session actor is at work: no hole, and nothing vanishes in silence."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.errors import EventsLostError, SessionExistsError, SessionNotFoundError
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.protocol.subscriptions import WHOLE_SESSION
from actors.messages.session import ONLY_SHARD, SessionKey, Shard
from actors.refs import SessionRef
from tests.support.fixtures.session_fixture import KEY, OTHER, HeldCommits, SessionFixture, settled, state_of


class OlderCopy:
    """A copy of a database file as it is now.

    Args:
        path: the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copy = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._copy.close)
        with closing(sqlite3.connect(path)) as source:
            source.backup(self._copy)

    def restore(self) -> None:
        """Put the copy in the place of what the database has become. Connections to it stay open."""
        with closing(sqlite3.connect(self._path, timeout=30)) as target:
            self._copy.backup(target)


OF_BOB = SessionKey("app", "bob", "s1")


def fixture(folder: Path) -> SessionFixture:
    return SessionFixture(folder, writer="desk")


def copy_of(session: SessionFixture) -> OlderCopy:
    return OlderCopy(session.folder / "sessions.db")


async def fails(session: SessionFixture, gone: str, turn: str = "e-9", **more: Any) -> None:
    with pytest.raises(EventsLostError, match=gone):
        await session.open(turn, **more)


async def test_a_turn_that_is_open_in_the_older_copy_is_sealed_there(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.open("e-1", subscriber="driver")
    copy = copy_of(session)
    await session.say(session.event("root", "one"))
    copy.restore()
    with pytest.raises(EventsLostError, match="events 2 to 2"):
        await session.say(session.event("root", "two"))
    await session.turn("e-2", "after")
    session = await (await session.restarted()).reading_heir()
    assert session.store.running("app") == []
    row = session.store.turn(KEY, "e-1")
    assert row is not None
    assert (row.status, b"EventsLostError" in row.outcome) == ("failed", True)
    assert session.positions() == [1, 2, 3]
    await session.ref.stop()


async def test_the_end_of_a_turn_that_is_gone_is_told_and_the_turn_runs_no_more(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one")
    await session.open("e-2")
    copy = copy_of(session)
    await session.close("e-2")
    copy.restore()
    await fails(session, "how turn 'e-2' has ended")
    await session.turn("e-3", "three")
    assert session.store.running("app") == []
    await session.ref.stop()


async def test_other_sessions_of_the_same_commit_go_on_where_nothing_of_theirs_is_gone(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    for key in (KEY, OTHER, OF_BOB):
        await session.open("e-1", key=key)
    copy = copy_of(session)
    await session.say(session.event("root", "lost"))
    copy.restore()
    held = HeldCommits(session.store)
    first = asyncio.create_task(session.say(session.event("root", "one"), key=OF_BOB))
    await settled()
    said = [asyncio.create_task(session.say(session.event("root", "one"), key=key)) for key in (KEY, OTHER, OTHER)]
    await settled()
    held.let_go()
    lost, *kept = await asyncio.gather(*said, return_exceptions=True)
    assert isinstance(lost, EventsLostError)
    assert [await first, *kept] == [2, 2, 3]
    for key in (OTHER, OF_BOB):
        await session.close(key=key)
    assert [session.positions(key) for key in (KEY, OTHER, OF_BOB)] == [[1], [1, 2, 3], [1, 2]]
    await session.ref.stop()


async def test_a_session_that_is_gone_as_a_whole_is_told_and_can_be_made_again(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one", key=OTHER)
    copy = copy_of(session)
    generation = (await session.open("e-1")).generation
    await session.close("e-1")
    copy.restore()
    # Another session gets its number in the tables.
    await session.turn("e-1", "mine", key=OF_BOB)
    await fails(session, "all that was stored of it, 1 events")
    with pytest.raises(SessionNotFoundError):
        await session.state()
    assert (await session.open("e-2")).generation != generation
    assert [text for _, _, text in await session.log(OF_BOB)] == ["e-1?", "mine"]
    await session.ref.stop()


async def test_a_session_without_events_that_is_gone_is_no_session_that_exists(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one", key=OTHER)
    copy = copy_of(session)
    made = p.CreateSessionRequest(key=KEY, state={"budget": 5})
    await session.ref.ask(made)
    copy.restore()
    await session.turn("e-2", "two", key=OF_BOB)
    with pytest.raises(EventsLostError, match="all that was stored of it"):
        await session.ref.ask(made)
    await session.ref.ask(made)
    with pytest.raises(SessionExistsError):
        await session.ref.ask(made)
    assert await session.state() == {"budget": 5}
    await session.ref.stop()


async def test_turns_in_line_end_with_the_error(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one")
    copy = copy_of(session)
    await session.open("e-2")
    waiting = asyncio.create_task(session.open("e-3"))
    await settled()
    copy.restore()
    with pytest.raises(EventsLostError):
        await session.say(session.event("root", "two", turn="e-2"), turn="e-2")
    await session.state()
    with pytest.raises(EventsLostError, match="events 3 to 3"):
        await waiting
    await session.turn("e-4", "four")
    assert [text for _, _, text in await session.log()] == ["e-1?", "one", "e-4?", "four"]
    await session.ref.stop()


async def test_a_reader_that_is_further_than_the_log_begins_anew(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one")
    copy = copy_of(session)
    await session.turn("e-2", "two")
    known = await session.ref.ask(p.Fetch(key=KEY))
    await session.ref.subscribe(p.Subscribe(subscriber="page", key=KEY, invocation_id=WHOLE_SESSION, after_seq=4))
    copy.restore()
    await fails(session, "events 3 to 4")
    await session.turn("e-3", "three", "four", "five")
    news = await session.ref.ask(p.Fetch(key=KEY, after_seq=4, generation=known.generation))
    assert news.generation != known.generation
    assert [each.seq for each in news.events] == [1, 2, 3, 4, 5, 6]
    assert (await session.news("page"))[1:] == ([], ["Failed"])
    await session.ref.stop()


async def test_states_of_users_and_of_the_app_are_those_of_the_store_again(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    for key in (KEY, OTHER):
        await session.turn("e-1", "one", key=key, state={"user:u": 1, "app:a": 1, "own": 1})
    copy = copy_of(session)
    await session.turn("e-2", "two", state={"user:u": 2, "app:a": 2, "own": 2})
    assert (await session.state(OTHER))["user:u"] == 2
    copy.restore()
    await session.turn("e-3", "three", key=OTHER)
    assert await session.state(OTHER) == {"user:u": 1, "app:a": 1, "own": 1}
    with pytest.raises(EventsLostError):
        await session.state()
    assert await session.state() == {"user:u": 1, "app:a": 1, "own": 1}
    await session.ref.stop()


async def test_a_rewind_that_is_gone_is_told_and_can_be_done_again(tmp_path: Path) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one", state={"k": 1})
    await session.turn("e-2", "two", state={"k": 2})
    copy = copy_of(session)
    await session.ref.ask(RewindRequest(key=KEY, invocation_id="e-2"))
    generation = (await session.ref.ask(p.Fetch(key=KEY))).generation
    copy.restore()
    await fails(session, "events 5 to 5")
    assert (await session.state(), len(await session.log())) == ({"k": 2}, 4)
    assert (await session.ref.ask(p.Fetch(key=KEY))).generation != generation
    await session.ref.ask(RewindRequest(key=KEY, invocation_id="e-2"))
    assert await session.state() == {"k": 1}
    await session.ref.stop()


@pytest.mark.parametrize("shard", [ONLY_SHARD, Shard(0, 2)], ids=["alone", "one-of-two"])
async def test_a_new_session_begins_with_the_states_that_the_store_has_now(tmp_path: Path, shard: Shard) -> None:
    peer = SessionFixture(tmp_path, writer="peer", shard=Shard(1, 2))

    async def peers() -> Mapping[int, SessionRef]:
        return {1: peer.ref}

    session = SessionFixture(tmp_path, writer="desk", shard=shard, peers=peers if shard.of > 1 else None)
    await session.turn("e-1", "one", state={"user:u": 1, "app:a": 1})
    copy = copy_of(session)
    await session.turn("e-2", "two", state={"user:u": 2, "app:a": 2})
    copy.restore()
    # Another user's turn notices it.
    await session.turn("e-1", "one", key=OF_BOB)
    new = SessionKey("app", "ada", "new")
    assert state_of(await session.open("e-1", key=new)) == {"user:u": 1, "app:a": 1}
    for each in (session, peer):
        await each.ref.stop()


@pytest.mark.parametrize("is_left", [False, True])
async def test_a_copy_from_the_time_of_the_actor_before_is_one_that_is_older(tmp_path: Path, is_left: bool) -> None:
    session = fixture(tmp_path)
    await session.turn("e-1", "one")
    if is_left:
        await session.ref.stop()
    copy = copy_of(session)
    heir = fixture(tmp_path)
    await heir.turn("e-2", "two")
    copy.restore()
    await fails(heir, "events 3 to 4")
    await heir.turn("e-3", "three")
    assert (heir.positions(), heir.replaced) == ([1, 2, 3, 4], 0)
    for each in (session, heir):
        await each.ref.stop()
