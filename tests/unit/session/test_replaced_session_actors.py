"""A Session actor that was replaced, and lives on beside the one in its place, as after the loss of its node."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from actors.errors import WriterReplacedError
from tests.support.fixtures.session_fixture import SessionFixture, settled


async def test_an_actor_that_was_replaced_and_lives_on_stores_nothing_more_and_is_told_so(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path, writer="desk")
    await session.turn("e-1", "one")
    await session.open("e-2")
    heir = await session.reading_heir()
    assert session.replaced == 0
    with pytest.raises(WriterReplacedError, match="taken the place of 'desk'"):
        await session.say(session.event("root", "too late", turn="e-2", state_delta={"user:u": 1}), turn="e-2")
    assert session.replaced > 0
    assert await heir.say(heir.event("root", "two", turn="e-2"), turn="e-2") == 4
    await heir.close("e-2")
    assert [text for _, _, text in await heir.log()] == ["e-1?", "one", "hi", "two"]
    assert (await heir.state(), heir.replaced) == ({}, 0)
    await session.ref.stop()
    await heir.turn("e-3", "three")
    await heir.ref.stop()


async def test_what_an_actor_is_storing_when_it_is_replaced_is_read_by_the_one_in_its_place(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path, writer="desk")
    await session.open()
    event = session.event("root", "one")
    storing = asyncio.create_task(session.say(event))
    await settled()
    heir = session.heir()
    opened = asyncio.create_task(heir.log())
    # Before, or not at all: then the heir stores it.
    with suppress(WriterReplacedError):
        assert await storing == 2
    await opened
    assert await heir.say(event) == 2
    await session.ref.stop()
    await heir.ref.stop()


async def test_an_actor_that_stops_leaves_no_place_behind(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path, writer="desk")
    await session.turn("e-1", "one")
    await session.ref.stop()
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        assert connection.execute("SELECT * FROM raygrove_writers").fetchall() == []


async def test_a_place_that_cannot_be_taken_now_is_taken_later(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path, writer="desk")
    session.store.claims_refused = 1
    await session.turn("e-1", "one")
    heir = await session.reading_heir()
    with pytest.raises(WriterReplacedError):
        await session.turn("e-2", "two")
    await session.ref.stop()
    await heir.ref.stop()
