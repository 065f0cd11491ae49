"""Records of model calls in the Session actor: stored once with their events, and deleted when they are old."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from actors import Content, LlmRequest
from actors.errors import StoreUnavailableError
from actors.layers.recording.messages import GetModelCalls
from actors.layers.recording.rules import RequestPacker
from actors.messages.protocol.log import PackedCall, PackedPart
from actors.messages.session import SessionKey, Shard
from actors.rules.sharding import shard_of
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture

DAY_S = 86_400.0
NOW_S = 1000 * DAY_S


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    inside.set_clock(monkeypatch, "records", NOW_S)


def call(number: int, *, age_days: float = 0.0) -> tuple[PackedCall, list[PackedPart]]:
    begun_s = NOW_S - age_days * DAY_S
    packed, parts = RequestPacker(10**6).packed(LlmRequest(contents=[Content.of_text(f"text {number}")]))
    return PackedCall(id=f"call-{number}", agent="root", begun_s=begun_s, ended_s=begun_s + 1, request=packed), parts


async def say(session: SessionFixture, number: int, key: SessionKey = KEY, *, age_days: float = 0.0) -> int:
    """Append an event with the record of a call."""
    made, parts = call(number, age_days=age_days)
    return await session.say(session.event("root", "said"), key=key, calls=[made], parts=parts)


async def ids(session: SessionFixture, key: SessionKey = KEY, turn: str = "e-1") -> list[tuple[str, int]]:
    reply = await session.ref.ask(GetModelCalls(key=key, invocation_id=turn))
    return [(stored.call.id, stored.seq) for stored in reply.calls]


async def test_a_record_is_stored_once_however_often_it_is_sent(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path)
    await session.open()
    made, parts = call(1)
    event = session.event("root", "said")
    for _ in range(2):
        assert await session.say(event, calls=[made], parts=parts) == 2
    # Without an event it stands beside the last one.
    late, more = call(2)
    for _ in range(2):
        await session.say(calls=[late], parts=more)
    assert await ids(session) == [("call-1", 2), ("call-2", 2)]
    assert session.positions() == [1, 2]
    session = await session.restarted()
    assert await ids(session) == [("call-1", 2), ("call-2", 2)]
    await session.ref.stop()


async def test_records_of_an_append_that_fails_are_not_stored(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path)
    await session.open()
    session.store.failures = 2
    with pytest.raises(Exception, match="the disk is full"):
        await say(session, 1)
    session.store.failures = 0
    await say(session, 2)
    assert await ids(session) == [("call-2", 2)]
    await session.ref.stop()


async def deleted(session: SessionFixture) -> None:
    """Let the actor delete what is old, if it wants to."""
    if (task := inside.deletion_of_calls(session.actor)) is not None:
        await asyncio.wait([task])


async def test_old_records_are_not_shown_and_are_deleted_beside_the_turns(tmp_path: Path) -> None:
    session = SessionFixture(tmp_path, keep_calls_s=30 * DAY_S)
    for key in (KEY, OTHER):
        await session.open(key=key)
        await say(session, 1, key, age_days=31)
        await say(session, 2, key, age_days=29)
        assert await ids(session, key) == [("call-2", 3)]
    assert len(session.store.model_calls(KEY, "e-1", limit=9)) == 2
    session.clock.now_s += inside.FIRST_S
    await session.say(session.event("root", "more"))
    await deleted(session)
    for key in (KEY, OTHER):
        assert [row.id for row in session.store.model_calls(key, "e-1", limit=9)] == ["call-2"]
    # Not again before its time.
    await say(session, 3, age_days=31)
    assert inside.deletion_of_calls(session.actor) is None
    session.clock.now_s += inside.EACH_S
    await session.say(session.event("root", "more"))
    await deleted(session)
    assert [row.id for row in session.store.model_calls(KEY, "e-1", limit=9)] == ["call-2"]
    await session.ref.stop()


async def test_each_of_several_session_actors_deletes_those_of_its_own_sessions(tmp_path: Path) -> None:
    keys = [SessionKey("app", "ada", f"s{number}") for number in range(8)]
    writer = SessionFixture(tmp_path)
    for key in keys:
        await writer.open(key=key)
        await say(writer, 1, key, age_days=31)
        await writer.close(key=key)
    await writer.ref.stop()
    mine = Shard(0, 2)
    session = SessionFixture(tmp_path, keep_calls_s=30 * DAY_S, shard=mine)
    served = next(key for key in keys if shard_of(key, 2) == 0)
    await session.turn("e-2", "first", key=served)
    session.clock.now_s += inside.FIRST_S
    await session.turn("e-3", "second", key=served)
    await deleted(session)
    left = [key for key in keys if session.store.model_calls(key, "e-1", limit=9)]
    assert left == [key for key in keys if shard_of(key, 2) == 1]
    assert left
    await session.ref.stop()


async def test_a_store_that_is_away_is_told_and_asked_another_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session = SessionFixture(tmp_path, keep_calls_s=30 * DAY_S)
    await session.open()
    await say(session, 1, age_days=31)
    session.clock.now_s += inside.FIRST_S

    def refuse(*_: object, **__: object) -> list[SessionKey]:
        raise StoreUnavailableError("the store", "it is locked")

    session.store.sessions_with_old_calls = refuse  # type: ignore[method-assign]
    session.actor._access._thread.stop_retrying()
    with caplog.at_level(logging.WARNING):
        await session.say(session.event("root", "more"))
        await deleted(session)
    assert "old model calls were not deleted" in caplog.text
    del session.store.sessions_with_old_calls
    session.clock.now_s += inside.EACH_S
    await session.say(session.event("root", "more"))
    await deleted(session)
    assert session.store.model_calls(KEY, "e-1", limit=9) == []
    await session.ref.stop()
