"""While the store is away: what was sent waits, is stored once, or fails in time; and nobody else writes over it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from actors.errors import ActorLostError, StoreConflictError, StoreUnavailableError
from actors.interfaces.stores import AddEvent, EventHead, EventRow, PutTurn, Write
from actors.layers.listing.client import count_turns
from actors.messages import protocol as p
from actors.messages.codec import encode
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture, settled

FAILED = p.Failed(agent="root", error_code="StoreUnavailableError")


async def test_what_is_sent_while_the_store_is_away_is_acknowledged_when_it_is_back(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    session.store.away = True
    saying = [asyncio.create_task(session.say(session.event("root", f"{number}"))) for number in range(3)]
    await settled()
    assert not any(each.done() for each in saying)
    session.store.away = False
    assert [await each for each in saying] == [2, 3, 4]
    assert await session.news("d") == (1, [(2, "0"), (3, "1"), (4, "2")], [])


async def test_an_actor_that_is_told_to_stop_does_not_wait_for_its_store(session: SessionFixture) -> None:
    await session.open()
    session.store.away = True
    saying = asyncio.create_task(session.say(session.event("root", "never")))
    await settled()
    await asyncio.wait_for(session.ref.stop(), 10)
    with pytest.raises(StoreUnavailableError):
        await saying


async def test_what_comes_after_the_end_is_refused_and_does_not_open_the_store(
    session: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.open()
    await session.ref.stop()
    opened = Mock()
    monkeypatch.setattr(session.store, "open", opened)
    with pytest.raises(ActorLostError, match="the Session actor is gone: it has stopped"):
        await session.say(session.event("root", "late"))
    opened.assert_not_called()


async def test_what_comes_after_the_end_may_wait_for_that_of_the_process(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        await ended.wait()

    session = SessionFixture(tmp_path, on_late_write=wait)
    await session.open()
    await session.ref.stop()
    late = [asyncio.create_task(session.say(session.event("root", "late"))), asyncio.create_task(session.open("e-2", key=OTHER))]
    await settled()
    assert not any(each.done() for each in late)
    ended.set()
    for each in late:
        with pytest.raises(ActorLostError, match="it has stopped"):
            await each


async def test_who_reads_after_the_end_is_served_without_the_place_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionFixture(tmp_path, writer="one")
    await session.open()
    await session.close()
    await session.ref.stop()
    claimed = Mock()
    monkeypatch.setattr(session.store, "claim", claimed)
    assert (await count_turns(session.ref, KEY.app)).running == 0
    claimed.assert_not_called()


async def test_a_connection_that_breaks_behind_the_commit_stores_and_tells_everything_once(session: SessionFixture) -> None:
    session.store.breaks = 3
    await session.open(subscriber="d", state_delta={"user:seen": 1})
    session.store.breaks = 1
    results = await asyncio.gather(*(session.say(session.event("root", f"{number}")) for number in range(5)))
    session.store.breaks = 1
    await session.close()
    assert sorted(results) == [2, 3, 4, 5, 6]
    assert session.positions() == [1, 2, 3, 4, 5, 6]
    told = await session.news("d")
    assert [seq for seq, _ in told[1]] == [2, 3, 4, 5, 6]
    assert told[2] == ["Finished"]
    assert await session.state() == {"user:seen": 1}


async def test_events_of_a_commit_whose_outcome_was_not_known_are_told_when_the_log_is_read_again(hasty: SessionFixture) -> None:
    await hasty.open(subscriber="d")
    hasty.store.leaves = True
    with pytest.raises(StoreUnavailableError):
        await hasty.say(hasty.event("root", "stored, and nobody knows"))
    polling = asyncio.create_task(hasty.news("d"))
    await settled()
    assert not polling.done()
    hasty.store.away = hasty.store.leaves = False
    assert (await hasty.log())[1:] == [(2, "root", "stored, and nobody knows")]
    assert await asyncio.wait_for(polling, 10) == (1, [(2, "stored, and nobody knows")], [])


async def test_what_was_sent_behind_an_event_for_which_the_store_was_away_fails_too(
    hasty: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hasty.open()
    commit = hasty.store.commit

    def back_for_the_next(writes: Sequence[Write]) -> None:
        if any(isinstance(write, AddEvent) and write.row.seq == 2 for write in writes):
            raise StoreUnavailableError("the store", "it is away")
        commit(writes)

    monkeypatch.setattr(hasty.store, "commit", back_for_the_next)
    saying = []
    for text in ("one", "two"):
        saying.append(asyncio.create_task(hasty.say(hasty.event("root", text))))
        await settled()
    assert {type(each) for each in await asyncio.gather(*saying, return_exceptions=True)} == {StoreUnavailableError}
    assert hasty.positions() == [1]


@pytest.mark.parametrize("failures", [0, 2])
async def test_the_end_of_a_turn_that_could_not_be_stored_is_stored_when_the_store_is_back(
    hasty: SessionFixture, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    inside.change(monkeypatch, "ends", PAUSE_S=0.0)
    await hasty.open()
    hasty.store.away = True
    with pytest.raises(StoreUnavailableError):
        await hasty.close(outcome=FAILED)
    assert (await hasty.ref.statistics()).counts["ends_owed"] == 1
    stored, loop, commit = asyncio.Event(), asyncio.get_running_loop(), hasty.store.commit

    def told(writes: Sequence[Write]) -> None:
        commit(writes)
        loop.call_soon_threadsafe(stored.set)

    monkeypatch.setattr(hasty.store, "commit", told)
    hasty.store.failures = failures
    hasty.store.away = False
    await asyncio.wait_for(stored.wait(), 10)
    row = hasty.store.turn(KEY, "e-1")
    assert row is not None
    assert (row.status, row.agent) == ("failed", "root")


async def test_who_sends_it_again_meanwhile_hears_that_it_is_still_to_be_stored(hasty: SessionFixture) -> None:
    await hasty.open()
    hasty.store.away = True
    for _ in range(2):
        # Not a FencedError: the Runner that keeps the end would forget it.
        with pytest.raises(StoreUnavailableError):
            await hasty.close(outcome=FAILED)
    hasty.store.away = False
    await hasty.ref.stop()


async def test_it_is_stored_at_the_latest_when_the_actor_stops(hasty: SessionFixture) -> None:
    await hasty.open()
    hasty.store.away = True
    with pytest.raises(StoreUnavailableError):
        await hasty.close(outcome=FAILED)
    hasty.store.away = False
    again = await hasty.restarted()
    await again.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1"))
    assert (await again.news("d"))[2] == ["Failed"]
    await again.ref.stop()


async def test_an_end_that_is_owed_does_not_end_a_turn_that_somebody_has_taken_up(hasty: SessionFixture) -> None:
    await hasty.open()
    hasty.store.away = True
    with pytest.raises(StoreUnavailableError):
        await hasty.close(outcome=FAILED)
    hasty.store.away = False
    row = hasty.store.turn(KEY, "e-1")
    assert row is not None
    taken_up = msgspec.structs.replace(row, epoch=2)
    hasty.store.commit([PutTurn(KEY, taken_up, 1.0)])
    again = await hasty.restarted()
    await again.open("e-2", key=OTHER)
    assert again.store.turn(KEY, "e-1") == taken_up
    await again.ref.stop()


async def test_state_that_was_never_stored_is_seen_by_no_session(hasty: SessionFixture) -> None:
    await hasty.turn("e-1", "one", state={"user:u": 1, "app:p": 1})
    await hasty.turn("e-1", "one", key=OTHER)
    await hasty.open("e-2")
    hasty.store.away = True
    with pytest.raises(StoreUnavailableError):
        await hasty.say(hasty.event("root", "lost", turn="e-2", state_delta={"user:u": 2, "app:p": 2}), turn="e-2")
    hasty.store.away = False
    assert await hasty.state(OTHER) == {"user:u": 1, "app:p": 1}
    assert await hasty.state() == {"user:u": 1, "app:p": 1}


async def test_of_two_actors_that_write_one_session_the_second_is_refused_and_reads_its_log_again(
    session: SessionFixture,
) -> None:
    await session.turn("e-1", "one")
    intruder = SessionFixture(session.folder)
    await intruder.turn("e-2", "theirs", state={"a": "theirs"})
    with pytest.raises(StoreConflictError, match="only one deployment may serve it"):
        await session.open("e-3", state_delta={"a": "ours"})
    assert [text for _, _, text in await session.log()] == ["e-1?", "one", "e-2?", "theirs"]
    assert await session.state() == {"a": "theirs"}
    assert (await session.open("e-4", state_delta={"b": 1})).authors == ("root",)
    await intruder.ref.stop()


async def test_events_that_came_with_the_refused_one_are_refused_with_it(session: SessionFixture) -> None:
    await session.open()
    intruder = SqlSessionStore(f"sqlite:///{session.folder}/sessions.db")
    intruder.open()
    theirs = encode(session.event("root", "theirs", turn="e-x"))
    head = EventHead(id="theirs", invocation_id="e-x", author="root", timestamp=1.0)
    intruder.commit([AddEvent(KEY, EventRow(seq=2, head=head, raw=theirs))])
    intruder.close()
    with pytest.raises(StoreConflictError):
        await session.say(session.event("root", "one"), session.event("root", "two", state_delta={"a": 1}))
    assert await session.log() == [(1, "user", "hi"), (2, "root", "theirs")]
    assert await session.state() == {}
    assert await session.say(session.event("root", "three")) == 3
