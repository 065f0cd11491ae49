"""A Session actor that is one of several, or that was replaced and lives on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from actors.errors import StoreError, StoreUnavailableError, WriterReplacedError
from actors.messages import protocol as p
from actors.messages.session import SessionKey, Shard
from tests.support.fixtures.session_fixture import OTHER, FailingStore, HeldCommits, SessionFixture, settled, state_of
from tests.support.polling import until
from tests.support.sharded_runtimes import one_session_per_shard

ONE_OF_TWO = Shard(0, 2)
FIRST, SECOND = (SessionKey("app", "ada", session) for session in one_session_per_shard("app", "ada", 2))


async def test_what_waits_to_be_written_is_not_lost_when_state_is_read_anew(tmp_path: Path) -> None:
    shard = SessionFixture(tmp_path, shard=ONE_OF_TWO)
    await shard.turn("e-1", "x", state={"app:a": 1})
    await shard.turn("e-1", "x", key=OTHER)
    await shard.open("e-2")
    held = HeldCommits(shard.store)
    # One commit is under way, one waits behind it; then the state is read between the two.
    first = asyncio.create_task(shard.say(shard.event("root", "one", turn="e-2"), turn="e-2"))
    await asyncio.to_thread(held.is_reached.wait, 20)
    second = asyncio.create_task(shard.say(shard.event("root", "two", turn="e-2", state_delta={"app:a": 2}), turn="e-2"))
    await asyncio.sleep(0)
    opening = asyncio.create_task(shard.open("e-3", key=OTHER))
    await asyncio.sleep(0)
    held.let_go()
    await asyncio.gather(first, second)
    assert state_of(await opening) == {"app:a": 2}
    assert await shard.state() == await shard.state(OTHER) == {"app:a": 2}
    await shard.ref.stop()


async def test_what_could_not_be_written_is_gone_when_state_is_read_anew(tmp_path: Path) -> None:
    shard = SessionFixture(tmp_path, shard=ONE_OF_TWO)
    await shard.turn("e-1", "x", state={"app:a": 1})
    await shard.open("e-2")
    shard.store.failures = 2
    with pytest.raises(StoreError):
        await shard.say(shard.event("root", "no", turn="e-2", state_delta={"app:a": 2}), turn="e-2")
    assert state_of(await shard.open("e-3", key=OTHER)) == {"app:a": 1}
    await shard.ref.stop()


async def test_a_runner_that_begins_anew_is_told_of_its_own_sessions_and_takes_no_others_out_of_line(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path)
    for key in (FIRST, SECOND):
        await session.open("e-1", key=key)
    lost, other = [asyncio.create_task(session.ask_to_open("e-2", key=key, runner="runner")) for key in (FIRST, SECOND)]
    await asyncio.sleep(0)
    ask = p.ListOpenTurns(app="app", runner="another", shard=Shard(0, 2))
    assert await session.ref.ask(ask) == p.OpenTurnsReply(turns=[(FIRST, "e-1")])
    assert await lost == p.ResumeRequired(invocation_id="e-1")
    assert not other.done()
    await session.close(key=SECOND)
    assert isinstance(await other, p.TurnBegun)
    await session.ref.stop()


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


async def test_a_place_that_cannot_be_taken_now_is_taken_later(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path, writer="desk")
    session.store.claims_refused = 1
    await session.turn("e-1", "one")
    heir = await session.reading_heir()
    with pytest.raises(WriterReplacedError):
        await session.turn("e-2", "two")
    await session.ref.stop()
    await heir.ref.stop()


class HurriedStore(FailingStore):
    """Its claims are to be renewed all the time; `outcomes` are raised by the first renewals."""

    renew_s = 0.0

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.renewals = 0
        self.outcomes: list[Exception] = []

    def renew_claim(self) -> None:
        self.renewals += 1
        if self.outcomes:
            raise self.outcomes.pop(0)


async def fixture(folder: Path) -> tuple[SessionFixture, HurriedStore]:
    session = SessionFixture(folder, store=HurriedStore, writer="desk")
    await session.ref.ask(p.OpenStore())
    assert isinstance(session.store, HurriedStore)
    return session, session.store


async def test_a_claim_is_renewed_until_the_actor_stops_also_when_that_fails_once(tmp_path: Path) -> None:
    session, store = await fixture(tmp_path)
    store.outcomes = [StoreUnavailableError("store", "it is away")]
    await asyncio.to_thread(until, lambda: store.renewals >= 3)
    await session.open()
    await session.ref.stop()
    renewals = store.renewals
    await session.ref.statistics()
    assert store.renewals == renewals


async def test_an_actor_that_was_replaced_learns_it_without_a_write(tmp_path: Path) -> None:
    session, store = await fixture(tmp_path)
    store.outcomes = [WriterReplacedError("desk")]
    await asyncio.to_thread(until, lambda: session.replaced)
    assert (session.replaced, store.renewals) == (1, 1)
    await session.ref.stop()
