"""A turn is joined by the request that it began with, sent again, and by no other one."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from actors.errors import RepeatMismatchError, StoreError
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import FINGERPRINT
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled


async def asked(session: SessionFixture, turn: str, fingerprint: str = "") -> p.OpenTurnReply:
    """The reply to a request with a fingerprint."""
    metadata = {FINGERPRINT: fingerprint} if fingerprint else None
    event = msgspec.structs.replace(session.event("user", "hi", turn=turn), custom_metadata=metadata)
    return await session.ref.open_turn(
        p.OpenTurn(
            key=KEY,
            invocation_id=turn,
            event=encode(event),
            auto_create=True,
            runner="runner",
            repeatable=True,
            fingerprint=fingerprint,
        )
    )


@pytest.mark.parametrize("where", ["in line", "open", "ended", "not in memory"])
async def test_another_request_under_the_id_of_a_turn_is_refused(session: SessionFixture, where: str) -> None:
    if where == "in line":
        await session.open("e-0")
    first = asyncio.create_task(asked(session, "e-1", "a"))
    if where == "in line":
        await settled()
    else:
        begun = await first
        assert isinstance(begun, p.TurnBegun)
        if where != "open":
            ref = p.TurnRef(KEY, "e-1", begun.epoch, generation=begun.generation)
            await session.ref.ask(p.CloseTurn(turn=ref, agent="root", outcome=p.Finished(agent="root")))
        if where == "not in memory":
            session = session.heir()
    with pytest.raises(RepeatMismatchError, match="'e-1'"):
        await asked(session, "e-1", "b")
    with pytest.raises(RepeatMismatchError, match="'e-1'"):
        await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", fingerprint="b"))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", fingerprint="a"))
    assert isinstance(await asked(session, "e-1", "a"), p.TurnJoined)
    assert isinstance(await asked(session, "e-1"), p.TurnJoined)
    if where == "in line":
        await session.close("e-0")
        assert isinstance(await first, p.TurnBegun)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_turn_is_joined_when_its_message_is_on_disk(session: SessionFixture, is_stored: bool) -> None:
    await session.turn("e-0", "one")
    held = HeldCommits(session.store)
    first = asyncio.create_task(session.open("e-1"))
    await settled()
    joining = asyncio.create_task(session.ask_to_open("e-1", repeatable=True))
    await settled()
    assert not joining.done()
    session.store.failures = 0 if is_stored else 10
    held.let_go()
    if is_stored:
        assert await joining == p.TurnJoined(invocation_id="e-1")
        await first
        return
    for refused in (first, joining):
        with pytest.raises(StoreError, match="disk is full"):
            await refused


async def test_a_request_that_finds_a_turn_which_cannot_be_stored_begins_it(session: SessionFixture) -> None:
    await session.turn("e-0", "one")
    held = HeldCommits(session.store)
    first = asyncio.create_task(asked(session, "e-1", "a"))
    await settled()
    again = asyncio.create_task(asked(session, "e-1", "a"))
    await settled()
    session.store.failures = 2
    held.let_go()
    with pytest.raises(StoreError, match="disk is full"):
        await first
    assert isinstance(await again, p.TurnBegun)


async def test_a_request_that_is_repeated_is_given_all_also_where_its_program_follows_the_rest(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", "one"), session.event("root", "two"))
    await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id="e-1", after_seq=2))
    assert isinstance(await session.ask_to_open("e-1", repeatable=True, subscriber="d"), p.TurnJoined)
    assert await session.news("d") == (1, [(2, "one"), (3, "two")], [])
