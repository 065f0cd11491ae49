"""When the store fails: nothing is half-written, nothing is acknowledged that is not there, and the next turn works."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors.errors import SessionNotFoundError, StoreError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
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
