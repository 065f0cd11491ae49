"""How a turn has ended is sent until the Session actor has stored it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.errors import ActorLostError, FencedError, RaygroveError, StoreError, StoreUnavailableError
from actors.messages import protocol as p
from actors.refs import SessionRef
from actors.rules.backoff import Backoff
from actors.runner.turns import TurnCloser
from tests.support.fixtures.session_fixture import KEY

PATIENCE_S = 8.0


class FailingSession(SessionRef):
    """A client of a Session actor that fails with these errors first. Keeps the turns that were closed."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.closed: list[str] = []
        self.has_closed = asyncio.Event()

    async def _ask(self, request: p.Request[Any], *_: Any, **__: Any) -> Any:
        assert isinstance(request, p.CloseTurn)
        if self._errors:
            raise self._errors.pop(0)
        self.closed.append(request.turn.invocation_id)
        self.has_closed.set()
        return p.Ack()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are sent again at once."""
    monkeypatch.setattr("actors.runner.turns.BACKOFF", Backoff(0.01, 0.01))


def turn(name: str) -> Any:
    return p.TurnRef(KEY, name, 1, generation="")


AWAY = (StoreUnavailableError("the store", "away"), ActorLostError("session", "killed"))


async def test_an_end_that_could_not_be_stored_is_sent_again_until_it_is() -> None:
    session = FailingSession(*AWAY, StoreError("it is broken"), *AWAY)
    closer = TurnCloser(session)
    assert await closer.close(turn("e-1"), "root", p.Finished(agent="root"))
    async with asyncio.timeout(PATIENCE_S):
        await session.has_closed.wait()
    assert session.closed == ["e-1"]
    await closer.flush_end((KEY, "e-1"))
    assert session.closed == ["e-1"]


async def test_each_end_is_sent_while_others_fail_and_who_needs_one_has_it_sent_now() -> None:
    session = FailingSession(*AWAY)
    closer = TurnCloser(session)
    for name in ("e-1", "e-2", "e-3"):
        await closer.close(turn(name), "root", p.Finished(agent="root"))
    await closer.flush_end((KEY, "e-2"))
    assert session.closed == ["e-3", "e-2"]
    async with asyncio.timeout(PATIENCE_S):
        while "e-1" not in session.closed:
            session.has_closed.clear()
            await session.has_closed.wait()
    assert sorted(session.closed) == ["e-1", "e-2", "e-3"]


@pytest.mark.parametrize(("error", "is_ours"), [(FencedError("e-1", 1, 2), False), (RaygroveError("refused"), True)])
async def test_an_end_that_is_refused_is_not_sent_again(error: RaygroveError, is_ours: bool) -> None:
    session = FailingSession(error)
    closer = TurnCloser(session)
    assert await closer.close(turn("e-1"), "root", p.Finished(agent="root")) is is_ours
    await closer.flush_end((KEY, "e-1"))
    assert session.closed == []


async def test_a_closer_that_is_stopped_sends_nothing_more() -> None:
    session = FailingSession(*AWAY)
    closer = TurnCloser(session)
    await closer.close(turn("e-1"), "root", p.Finished(agent="root"))
    closer.stop()
    await asyncio.sleep(0.05)
    assert session.closed == []


async def test_a_turn_that_ends_after_the_closer_was_stopped_leaves_nothing_that_would_send_it() -> None:
    closer, tasks = TurnCloser(FailingSession(*AWAY)), asyncio.all_tasks()
    closer.stop()
    assert await closer.close(turn("e-1"), "root", p.Finished(agent="root"))
    assert asyncio.all_tasks() == tasks
