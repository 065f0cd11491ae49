"""A turn of a session that is not in memory: the store says whether there is one, and what it has of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.errors import StoreError
from actors.layers.users import HoldUser, ReleaseUser
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from tests.support.any_message import decode_message
from tests.support.fixtures.session_fixture import KEY, FailingStore, HeldCommits, SessionFixture, settled


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
