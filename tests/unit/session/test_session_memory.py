"""What the Session actor keeps of logs in memory: bounded, whatever is stored, and never at the cost of what is under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from actors import Event
from actors.errors import StoreUnavailableError
from actors.interfaces.stores import SessionRow, Write
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import KIB, Limits
from actors.messages.event import decode_event
from actors.messages.session import SessionKey
from actors.rules.event_buffer import MAX_BYTES
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture, settled
from tests.support.inside import FRESH_S, IDLE_S, PAGE_BYTES, TAIL, TAIL_BYTES

ROOM = 64 * KIB


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[SessionFixture]:
    """A Session actor with little room."""
    made = SessionFixture(tmp_path, limits=Limits(max_cache_bytes=ROOM))
    yield made
    await made.ref.stop()


def key_of(number: int) -> SessionKey:
    return SessionKey("app", f"user-{number}", "s")


async def fetched(session: SessionFixture) -> list[list[Event]]:
    """The log page by page, as an agent reads it."""
    pages: list[list[Event]] = []
    after_seq, generation, more = 0, "", True
    while more:
        reply = await session.ref.ask(p.Fetch(key=KEY, after_seq=after_seq, generation=generation))
        pages.append([decode_event(stored.raw, stored.seq) for stored in reply.events])
        generation, more = reply.generation, reply.more
        after_seq = pages[-1][-1].seq if pages[-1] else after_seq
    return pages


def added(session: SessionFixture, text: str) -> p.AppendEventRequest:
    return p.AppendEventRequest(key=KEY, event=encode(session.event("root", text, turn="e-9")))


async def touch(session: SessionFixture, key: SessionKey) -> None:
    """Have the session used, which must be there, without anything being asked of the store if it is in memory."""
    found = await session.ref.ask(p.GetSessionRequest(key=key, num_recent_events=0))
    assert found.session is not None


async def test_sessions_that_nobody_uses_leave_memory_and_come_back_as_they_were(narrow: SessionFixture) -> None:
    for number in range(100):
        narrow.clock.now_s += FRESH_S
        await narrow.turn(f"e-{number}", "x" * 1_000, key=key_of(number), state={"user:n": number, "own": number})
    counts = await narrow.counts()
    assert counts["bytes_in_memory"] <= ROOM
    assert 2 <= counts["sessions_in_memory"] <= 20
    # With the last session of a user goes what his sessions have in common.
    assert counts["shared_states"] == counts["sessions_in_memory"] + 1
    assert await narrow.state(key_of(0)) == {"user:n": 0, "own": 0}
    opened = await narrow.open("e-new", key=key_of(0))
    assert (opened.seq, opened.authors) == (3, ("root",))


async def test_a_session_that_is_only_read_stays_while_others_leave(
    narrow: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        await narrow.turn(f"e-{number}", "x" * 1_000, key=key_of(number))
        await touch(narrow, key_of(0))
        narrow.clock.now_s += FRESH_S
    asked: list[SessionKey] = []
    session_of = narrow.store.session

    def session_noted(key: SessionKey) -> SessionRow | None:
        asked.append(key)
        return session_of(key)

    monkeypatch.setattr(narrow.store, "session", session_noted)
    await touch(narrow, key_of(0))
    assert asked == []
    await touch(narrow, key_of(1))
    assert asked == [key_of(1)]


async def test_sessions_that_are_idle_for_long_leave_memory_although_there_is_room(session: SessionFixture) -> None:
    await session.turn("e-1", "hello")
    session.clock.now_s += IDLE_S
    await session.turn("e-2", "hello", key=OTHER)
    assert (await session.counts())["sessions_in_memory"] == 1
    assert await session.log() == [(1, "user", "e-1?"), (2, "root", "hello")]


async def test_sessions_with_a_turn_stay_but_leave_what_is_stored_to_the_store(narrow: SessionFixture) -> None:
    for number in range(30):
        narrow.clock.now_s += FRESH_S
        await narrow.open("e-1", "x" * 10_000, key=key_of(number))
    counts = await narrow.counts()
    assert counts["sessions_in_memory"] == 30
    assert counts["bytes_in_memory"] < 30 * 10_000
    for number in range(30):
        assert await narrow.say(narrow.event("root", "done"), key=key_of(number)) == 2
        await narrow.close(key=key_of(number))
    assert [seq for seq, *_ in await narrow.log(key_of(0))] == [1, 2]


async def test_a_session_that_is_being_written_is_not_read_anew(narrow: SessionFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    await narrow.turn("e-1", "hello")
    await narrow.turn("e-2", "hello", key=OTHER)
    commit, is_full, asked = narrow.store.commit, True, threading.Event()

    def commit_if_there_is_room(writes: Sequence[Write]) -> None:
        asked.set()
        if is_full:
            raise StoreUnavailableError("the store", "it is full")
        commit(writes)

    monkeypatch.setattr(narrow.store, "commit", commit_if_there_is_room)
    one = asyncio.create_task(narrow.ref.append_event(added(narrow, "one")))
    await asyncio.to_thread(asked.wait)
    narrow.clock.now_s += IDLE_S
    await touch(narrow, OTHER)
    two = asyncio.create_task(narrow.ref.append_event(added(narrow, "two")))
    await touch(narrow, KEY)
    is_full = False
    assert [await one, await two] == [3, 4]


@pytest.mark.parametrize("opens", [False, True])
async def test_a_session_that_leaves_memory_while_the_store_is_asked_is_looked_up_again(
    narrow: SessionFixture, opens: bool
) -> None:
    await narrow.turn("e-1", "hello")
    await narrow.turn("e-2", "hello", key=OTHER)
    narrow.store.away = True
    one = asyncio.create_task(_opened(narrow) if opens else narrow.ref.append_event(added(narrow, "one")))
    await settled()
    narrow.clock.now_s += IDLE_S
    await touch(narrow, OTHER)
    looked_up = asyncio.create_task(touch(narrow, KEY))
    narrow.store.away = False
    await looked_up
    first = await one
    assert first == 3
    if not opens:
        assert await narrow.ref.append_event(added(narrow, "two")) == 4
    else:
        assert await narrow.say(narrow.event("root", "two"), turn="e-3") == 4


async def _opened(session: SessionFixture) -> int:
    return (await session.open("e-3", repeatable=True)).seq


async def test_a_log_of_large_events_is_kept_in_part_and_read_in_small_pages(session: SessionFixture) -> None:
    await session.open()
    more = [f"{number}" + "x" * (TAIL_BYTES // 4) for number in range(60)]
    for text in more:
        await session.say(session.event("root", text))
    counts = await session.counts()
    assert counts["bytes_in_memory"] < 1.1 * TAIL_BYTES
    pages = await fetched(session)
    assert [event.text for page in pages for event in page] == ["hi", *more]
    assert max(map(size, pages)) < 1.5 * PAGE_BYTES


async def test_a_page_for_a_reader_that_is_behind_is_what_its_buffer_takes(session: SessionFixture) -> None:
    await session.open()
    said = [f"{number}" + "x" * (MAX_BYTES // 50) for number in range(150)]
    for text in said:
        await session.say(session.event("root", text))
    pages: list[list[Event]] = []
    read, more = 0, True
    while more:
        page = await session.ref.ask(p.ReadTurn(key=KEY, invocation_id="e-1", after_seq=read))
        pages.append([decode_event(stored.raw, stored.seq) for stored in page.events])
        read, more = page.read_to_seq, page.more
    assert [event.text for page in pages for event in page] == said
    # The message is among those that tell how large the others are.
    assert max(map(size, pages)) < 1.1 * MAX_BYTES


def size(page: Sequence[Event]) -> int:
    return sum(len(event.text) for event in page)


async def test_a_state_that_is_overwritten_again_and_again_is_not_taken_for_a_large_one(session: SessionFixture) -> None:
    await session.open()
    for number in range(300):
        await session.say(session.event("root", "x" * 1_000, state_delta={"count": number}))
    assert (await session.counts())["bytes_in_memory"] < 2.5 * TAIL * 1_000
