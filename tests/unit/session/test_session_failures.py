"""When the store fails: nothing is half-written, nothing is acknowledged that is not there, and the next turn works."""

from __future__ import annotations

import asyncio

import pytest

from actors.errors import FencedError, SessionNotFoundError, StoreError
from actors.messages import protocol as p
from tests.support.session_fixture import KEY, OTHER, SessionFixture, settled


async def test_a_turn_that_could_not_be_opened_leaves_nothing_and_the_next_one_works(desk: SessionFixture) -> None:
    await desk.turn("e-1", "one", state={"a": 1})
    desk.store.failures = 2
    with pytest.raises(StoreError, match="disk is full"):
        await desk.open("e-2", state_delta={"a": 2, "user:u": 2, "temp:t": 2})
    assert await desk.state() == {"a": 1}
    desk.store.failures = 0
    assert (await desk.open("e-2")).seq == 3
    assert desk.places() == [1, 2, 3]


async def test_an_event_that_could_not_be_stored_leaves_no_hole_and_can_be_sent_again(desk: SessionFixture) -> None:
    await desk.open(subscriber="d")
    event = desk.event("root", "one", state_delta={"a": 1})
    desk.store.failures = 2
    with pytest.raises(StoreError):
        await desk.say(event)
    desk.store.failures = 0
    assert await desk.state() == {}
    other = desk.event("root", "two", state_delta={"b": 2})
    assert await desk.say(other) == 2
    assert await desk.say(event) == 3
    await desk.close()
    assert desk.places() == [1, 2, 3]
    assert await desk.state() == {"a": 1, "b": 2}
    assert await desk.news("d") == (1, [(2, "two"), (3, "one")], ["Finished"])


async def test_an_event_on_its_way_is_not_acknowledged_to_who_sends_it_again(desk: SessionFixture) -> None:
    await desk.open()
    event = desk.event("root", "one")
    desk.store.failures = 2
    first, second = await asyncio.gather(desk.say(event), desk.say(event), return_exceptions=True)
    assert isinstance(first, StoreError)
    assert second == 2
    assert desk.places() == [1, 2]


async def test_what_was_sent_behind_a_failed_event_fails_too(desk: SessionFixture) -> None:
    await desk.open()
    desk.store.failures = 2
    results = await asyncio.gather(*(desk.say(desk.event("root", f"{number}")) for number in range(5)), return_exceptions=True)
    stored = [result for result in results if isinstance(result, int)]
    assert any(isinstance(result, StoreError) for result in results)
    assert desk.places() == list(range(1, 2 + len(stored)))
    desk.store.failures = 0
    await desk.say(desk.event("root", "after"))
    assert desk.places() == list(range(1, 3 + len(stored)))


async def test_a_failing_session_does_not_take_others_with_it(desk: SessionFixture) -> None:
    for key in (KEY, OTHER):
        await desk.open(key=key)
    desk.store.broken = KEY
    mine, theirs = await asyncio.gather(
        desk.say(desk.event("root", "mine")), desk.say(desk.event("root", "theirs"), key=OTHER), return_exceptions=True
    )
    assert isinstance(mine, StoreError)
    assert theirs == 2
    desk.store.broken = None
    assert await desk.say(desk.event("root", "again")) == 2


async def test_a_session_that_could_not_be_made_can_be_made_later(desk: SessionFixture) -> None:
    await desk.turn("e-1", "x", key=OTHER, state={"user:u": 1})
    desk.store.failures = 2
    with pytest.raises(StoreError):
        await desk.ref.create_session(p.CreateSessionRequest(key=KEY, state={"a": 1, "user:u": 2, "app:p": 3}))
    assert await desk.state(OTHER) == {"user:u": 1}
    desk.store.failures = 0
    await desk.ref.create_session(p.CreateSessionRequest(key=KEY, state={"b": 1}))
    await desk.turn("e-1", "x")
    assert await desk.state() == {"b": 1, "user:u": 1}


async def test_a_turn_whose_end_could_not_be_stored_has_ended_all_the_same(desk: SessionFixture) -> None:
    await desk.open("e-1", subscriber="d")
    waiting = asyncio.create_task(desk.open("e-2"))
    await settled()
    desk.store.failures = 2
    with pytest.raises(StoreError):
        await desk.close()
    desk.store.failures = 0
    assert await desk.news("d") == (1, [], ["Finished"])
    assert (await asyncio.wait_for(waiting, 5)).seq == 2


async def test_a_turn_is_cancelled_even_if_its_open_calls_cannot_be_answered(desk: SessionFixture) -> None:
    await desk.open("e-1", subscriber="d")
    await desk.say(desk.event("root", call="c1"))
    desk.store.failures = 2
    await desk.close(outcome=p.Cancelled(agent="root"))
    assert (await desk.news("d"))[2] == ["Cancelled"]
    await desk.turn("e-2", "two")
    assert desk.places() == [1, 2, 3, 4]


async def test_a_last_event_that_could_not_be_stored_does_not_end_the_turn(desk: SessionFixture) -> None:
    await desk.open("e-1", subscriber="d")
    event = desk.event("root", "bye")
    desk.store.failures = 2
    with pytest.raises(StoreError):
        await desk.say(event, outcome=p.Finished(agent="root"), selected="root")
    desk.store.failures = 0
    assert await desk.say(event, outcome=p.Finished(agent="root"), selected="root") == 2
    assert await desk.news("d") == (1, [(2, "bye")], ["Finished"])
    with pytest.raises(FencedError):
        await desk.say(desk.event("root", "late"))
    await desk.turn("e-2", "two")


async def test_a_rewind_that_could_not_be_stored_changes_nothing(desk: SessionFixture) -> None:
    await desk.turn("e-1", "one", state={"a": 1})
    desk.store.failures = 2
    with pytest.raises(StoreError):
        await desk.ref.rewind(p.RewindRequest(key=KEY, invocation_id="e-1"))
    desk.store.failures = 0
    assert [text for _, _, text in await desk.log()] == ["e-1?", "one"]
    assert await desk.state() == {"a": 1}
    assert (await desk.ref.find_turn(p.FindTurn(key=KEY))).authors == ("root",)
    await desk.ref.rewind(p.RewindRequest(key=KEY, invocation_id="e-1"))
    assert await desk.state() == {}


async def test_a_session_that_could_not_be_deleted_is_still_there(desk: SessionFixture) -> None:
    await desk.turn("e-1", "one")
    desk.store.failures = 2
    with pytest.raises(StoreError):
        await desk.ref.delete_session(p.DeleteSessionRequest(key=KEY))
    desk.store.failures = 0
    await desk.turn("e-2", "two")
    assert len(await desk.log()) == 4


async def test_a_turn_that_comes_while_the_session_is_deleted_is_refused(desk: SessionFixture) -> None:
    await desk.turn("e-1", "one")
    deleting = asyncio.create_task(desk.ref.delete_session(p.DeleteSessionRequest(key=KEY)))
    opening = asyncio.create_task(desk.open("e-2"))
    await deleting
    with pytest.raises(SessionNotFoundError):
        await opening
    assert (await desk.open("e-3")).seq == 1


async def test_what_was_acknowledged_is_on_disk_whatever_happens_then(desk: SessionFixture) -> None:
    await desk.open()
    for number in range(10):
        assert await desk.say(desk.event("root", f"{number}")) == number + 2
        assert desk.places()[-1] == number + 2


@pytest.mark.parametrize("outcome", [p.Failed(error_code="StoreError"), p.Cancelled()])
async def test_a_turn_ends_and_its_driver_is_told_also_while_the_store_is_down(
    desk: SessionFixture, outcome: p.AnyOutcome
) -> None:
    await desk.open("e-1", subscriber="d")
    await desk.say(desk.event("root", call="c1"))
    waiting = asyncio.create_task(desk.open("e-2"))
    await settled()
    desk.store.down = True
    with pytest.raises(StoreError):
        await desk.say(desk.event("root", "lost"))
    with pytest.raises(StoreError):
        await desk.close(outcome=outcome)
    assert (await asyncio.wait_for(desk.news("d"), 5))[2] == [type(outcome).__name__]
    with pytest.raises(StoreError):
        await asyncio.wait_for(waiting, 5)
    desk.store.down = False
    await desk.turn("e-3", "three")
    assert desk.places() == [1, 2, 3, 4]
