"""When the store fails or is away: nothing is half-written or acknowledged too early, and the next turn works."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from actors.errors import ActorLostError, SessionNotFoundError, StoreConflictError, StoreError, StoreUnavailableError
from actors.interfaces.stores import AddEvent, PutTurn, Write
from actors.layers.listing.client import count_turns
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, OTHER, HeldCommits, SessionFixture, settled


async def test_an_event_that_could_not_be_stored_leaves_no_hole_and_can_be_sent_again(session: SessionFixture) -> None:
    await session.open(subscriber="d")
    event = session.event("root", "one", state_delta={"a": 1})
    session.store.failures = 2
    with pytest.raises(StoreError):
        await session.say(event)
    session.store.failures = 0
    assert await session.state() == {}
    other = session.event("root", "two", state_delta={"b": 2})
    assert await session.say(other) == 2
    assert await session.say(event) == 3
    await session.close()
    assert session.positions() == [1, 2, 3]
    assert await session.state() == {"a": 1, "b": 2}
    assert await session.news("d") == (1, [(2, "two"), (3, "one")], ["Finished"])


async def test_an_event_on_its_way_is_not_acknowledged_to_who_sends_it_again(session: SessionFixture) -> None:
    await session.open()
    event = session.event("root", "one")
    session.store.failures = 2
    first, second = await asyncio.gather(session.say(event), session.say(event), return_exceptions=True)
    assert isinstance(first, StoreError)
    assert second == 2
    assert session.positions() == [1, 2]


async def test_what_was_sent_behind_a_failed_event_fails_too(session: SessionFixture) -> None:
    await session.open()
    session.store.failures = 2
    results = await asyncio.gather(
        *(session.say(session.event("root", f"{number}")) for number in range(5)), return_exceptions=True
    )
    stored = [result for result in results if isinstance(result, int)]
    assert any(isinstance(result, StoreError) for result in results)
    assert session.positions() == list(range(1, 2 + len(stored)))
    session.store.failures = 0
    await session.say(session.event("root", "after"))
    assert session.positions() == list(range(1, 3 + len(stored)))


async def test_what_was_sent_behind_a_failed_event_fails_also_if_the_session_is_read_again_meanwhile(
    session: SessionFixture,
) -> None:
    others = [SessionKey("app", "bob", f"s{number}") for number in range(20)]
    for key in (KEY, OTHER, *others):
        await session.open(key=key)
    held = HeldCommits(session.store)
    before = asyncio.create_task(session.say(session.event("root", "before"), key=OTHER))
    await asyncio.to_thread(held.is_reached.wait, 20)

    async def first() -> int:
        event = session.event("root", "first")
        with pytest.raises(StoreError):
            await session.say(event)
        return await session.say(event)

    # One transaction, which is made again in parts: there is time to read the session between the two events.
    mine = asyncio.create_task(first())
    await settled()
    theirs = [asyncio.create_task(session.say(session.event("root", "theirs"), key=key)) for key in others]
    await settled()
    behind = asyncio.create_task(session.say(session.event("root", "behind")))
    await settled()
    # The one that is under way fails, alone too; then all together; then the first one alone.
    session.store.failures = 4
    held.let_go()
    assert [type(each) for each in await asyncio.gather(before, behind, return_exceptions=True)] == [StoreError, StoreError]
    assert (await mine, await asyncio.gather(*theirs)) == (2, [2] * len(others))
    assert session.positions() == [1, 2]


async def test_a_turn_is_cancelled_even_if_its_open_calls_cannot_be_answered(session: SessionFixture) -> None:
    await session.open("e-1", subscriber="d")
    await session.say(session.event("root", call="c1"))
    session.store.failures = 2
    await session.close(outcome=p.Cancelled(agent="root"))
    assert (await session.news("d"))[2] == ["Cancelled"]
    await session.turn("e-2", "two")
    assert session.positions() == [1, 2, 3, 4]


async def test_a_turn_that_comes_while_the_session_is_deleted_is_refused(session: SessionFixture) -> None:
    await session.turn("e-1", "one")
    deleting = asyncio.create_task(session.ref.ask(p.DeleteSessionRequest(key=KEY)))
    opening = asyncio.create_task(session.open("e-2"))
    await deleting
    with pytest.raises(SessionNotFoundError):
        await opening
    assert (await session.open("e-3")).seq == 1


@pytest.mark.parametrize("outcome", [p.Failed(error_code="StoreError"), p.Cancelled()])
async def test_a_turn_ends_and_its_driver_is_told_also_while_the_store_is_down(
    session: SessionFixture, outcome: p.AnyOutcome
) -> None:
    await session.open("e-1", subscriber="d")
    await session.say(session.event("root", call="c1"))
    waiting = asyncio.create_task(session.open("e-2"))
    await settled()
    session.store.down = True
    with pytest.raises(StoreError):
        await session.say(session.event("root", "lost"))
    with pytest.raises(StoreError):
        await session.close(outcome=outcome)
    assert (await asyncio.wait_for(session.news("d"), 5))[2] == [type(outcome).__name__]
    with pytest.raises(StoreError):
        await asyncio.wait_for(waiting, 5)
    session.store.down = False
    await session.turn("e-3", "three")
    assert session.positions() == [1, 2, 3, 4]


async def test_a_message_that_the_actor_before_has_stored_after_all_opens_its_turn_once(session: SessionFixture) -> None:
    await session.turn("e-1", "one")
    heir = await session.reading_heir()
    await session.open("e-2", state_delta={"a": 1})
    begun = await heir.open("e-2", state_delta={"a": 1})
    assert (begun.seq, begun.epoch) == (3, 1)
    # So it is for the next actor.
    next_heir = await heir.reading_heir()
    await next_heir.ref.ask(p.BeginAlone(turn=heir.turn_ref("e-2"), run="root", attempt=1))
    await next_heir.ref.stop()
    await heir.say(heir.event("root", "two", turn="e-2"), turn="e-2")
    await heir.close("e-2")
    assert await heir.log() == [(1, "user", "e-1?"), (2, "root", "one"), (3, "user", "hi"), (4, "root", "two")]
    assert await heir.state() == {"a": 1}
    await heir.ref.stop()


async def test_an_event_that_the_actor_before_has_stored_after_all_is_there_once(session: SessionFixture) -> None:
    await session.open()
    heir = await session.reading_heir()
    event = session.event("root", "one", state_delta={"a": 1})
    assert await session.say(event) == 2
    assert await heir.say(event) == 2
    await heir.close()
    assert await heir.log() == [(1, "user", "hi"), (2, "root", "one")]
    assert await heir.state() == {"a": 1}
    await heir.ref.stop()


async def test_a_session_was_written_to_when_its_newest_event_was_also_if_its_actor_is_lost_then(session: SessionFixture) -> None:
    await session.turn("e-1", "one")
    await session.open("e-2")
    event = session.event("root", "two", turn="e-2")
    await session.say(event, turn="e-2")
    heir = await session.reading_heir()
    await heir.close("e-2")
    row = heir.store.session(KEY)
    assert row is not None
    assert row.updated_s == event.timestamp
    await heir.ref.stop()


async def test_a_runner_that_asks_again_was_not_lost(session: SessionFixture) -> None:
    request = p.OpenTurn(
        key=KEY,
        invocation_id="e-1",
        event=encode(session.event("user", "hi", turn="e-1")),
        runner="runner",
        auto_create=True,
        repeatable=True,
    )
    assert isinstance(await session.ref.open_turn(request), p.TurnBegun)
    again = msgspec.structs.replace(request, epoch=2)
    resumed = await session.heir().ref.open_turn(again)
    assert isinstance(resumed, p.TurnResumed)
    assert resumed.progress.losses == {}
    # Another Runner has it from one that was lost.
    resumed = await session.heir().ref.open_turn(msgspec.structs.replace(request, runner="another"))
    assert isinstance(resumed, p.TurnResumed)
    assert resumed.progress.losses[""].times == 1


FAILED = p.Failed(agent="root", error_code="StoreUnavailableError")


async def test_an_actor_that_is_told_to_stop_does_not_wait_for_its_store(session: SessionFixture) -> None:
    await session.open()
    session.store.away = True
    saying = asyncio.create_task(session.say(session.event("root", "never")))
    await settled()
    await asyncio.wait_for(session.ref.stop(), 10)
    with pytest.raises(StoreUnavailableError):
        await saying


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


async def test_an_end_that_is_owed_is_still_to_be_stored_and_is_so_at_the_latest_when_the_actor_stops(
    hasty: SessionFixture,
) -> None:
    await hasty.open()
    hasty.store.away = True
    for _ in range(2):
        # Not a FencedError when it is sent again: the Runner that keeps the end would forget it.
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
