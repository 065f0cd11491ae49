"""A store in a thread: opened late, waited for while it is away, given up in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from actors.errors import RaygroveError, SessionNotFoundError, StoreError, StoreUnavailableError
from actors.session.store.store_thread import StoreThread
from tests.support.fixtures.session_fixture import settled

AWAY = StoreUnavailableError("the store", "gone for lunch")


class Shelf:
    """A store that fails as often as it is told, in opening or when it is asked."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def __str__(self) -> str:
        return "the shelf"

    def open(self) -> None:
        self._do("open")

    def close(self) -> None:
        self._do("close")

    def ask(self, what: str = "ask") -> str:
        self._do(what)
        self.gate.wait()
        return what

    def _do(self, what: str) -> None:
        self.did.append(what)
        if self.failures:
            raise self.failures.pop(0)


class Pauses(list[float]):
    """Waits no time, and tells how long it was to wait."""

    async def __call__(self, pause_s: float) -> None:
        self.append(pause_s)
        await asyncio.sleep(0)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def thread(shelf: Shelf, pauses: Pauses) -> StoreThread:
    return StoreThread(shelf, "shelf", 60.0, pauses)


async def test_a_store_is_opened_when_it_is_first_asked_and_once(shelf: Shelf, thread: StoreThread) -> None:
    assert shelf.did == []
    assert [*await asyncio.gather(thread.call(shelf.ask, "a"), thread.call(shelf.ask, "b"))] == ["a", "b"]
    await thread.close()
    await thread.close()
    assert shelf.did == ["open", "a", "b", "close"]
    assert await thread.call(shelf.ask) == "ask"
    assert shelf.did[4:] == ["open", "ask"]


async def test_a_store_that_is_closed_while_it_is_asked_does_one_thing_at_a_time(shelf: Shelf, thread: StoreThread) -> None:
    await thread.call(shelf.ask, "first")
    shelf.gate.clear()
    closing = asyncio.create_task(thread.close())
    late = asyncio.create_task(thread.call(shelf.ask, "late"))
    await closing
    later = asyncio.create_task(thread.call(shelf.ask, "later"))
    # Long enough for another thread, which must wait for the one that is in the midst of a call. Any of the two may be first.
    await asyncio.sleep(0.05)
    *before, one = shelf.did
    assert (before, one in ("late", "later")) == (["open", "first", "close", "open"], True)
    shelf.gate.set()
    assert [await late, await later] == ["late", "later"]
    assert {one, *shelf.did[5:]} == {"late", "later"}


async def test_a_store_that_is_away_is_asked_again_until_it_is_back(shelf: Shelf, thread: StoreThread, pauses: Pauses) -> None:
    shelf.failures = [AWAY] * 5
    assert await thread.call(shelf.ask) == "ask"
    assert shelf.did == ["open"] * 6 + ["ask"]
    shelf.failures = [AWAY] * 3
    assert await thread.call(shelf.ask) == "ask"
    assert len(pauses) == 8


async def test_a_store_that_stays_away_is_given_up_and_then_nobody_waits(shelf: Shelf, pauses: Pauses) -> None:
    thread = StoreThread(shelf, "shelf", 0.01)
    shelf.failures = [AWAY] * 1000
    with pytest.raises(StoreUnavailableError, match="the store is not available: gone for lunch"):
        await thread.call(shelf.ask)
    asked = len(shelf.did)
    for writing in (True, False):
        with pytest.raises(StoreUnavailableError):
            await thread.call(shelf.ask, writing=writing)
    assert len(shelf.did) == asked + 2
    shelf.failures = []
    assert await thread.call(shelf.ask) == "ask"


async def test_who_does_not_want_to_wait_is_told_at_once(shelf: Shelf, thread: StoreThread, pauses: Pauses) -> None:
    shelf.failures = [AWAY]
    with pytest.raises(StoreUnavailableError):
        await thread.call(shelf.ask, waits=False)
    assert (len(shelf.did), pauses) == (1, [])


async def test_what_a_store_refuses_is_raised_as_it_is_and_not_tried_again(shelf: Shelf, thread: StoreThread) -> None:
    await thread.call(shelf.ask)
    for refusal in (StoreError("no such table"), SessionNotFoundError("app", "ada", "s1")):
        shelf.failures = [refusal]
        with pytest.raises(RaygroveError) as caught:
            await thread.call(shelf.ask)
        assert caught.value is refusal
    assert shelf.did == ["open"] + ["ask"] * 3


@pytest.mark.parametrize("kind", [ValueError, OSError, TimeoutError])
async def test_whatever_else_it_raises_is_a_store_error_that_names_it(
    shelf: Shelf, thread: StoreThread, kind: Callable[[str], Exception]
) -> None:
    shelf.failures = [kind("its own fault")]
    with pytest.raises(StoreError, match=r"the shelf: \w+Error: its own fault"):
        await thread.call(shelf.ask)
    assert await thread.call(shelf.ask) == "ask"


async def test_a_store_that_does_not_answer_is_given_up_and_nobody_stands_in_line_behind_it(shelf: Shelf) -> None:
    thread = StoreThread(shelf, "shelf", 0.05, patience_s=0.05)
    shelf.gate.clear()
    with pytest.raises(StoreUnavailableError, match="the shelf is not available: no answer within"):
        await thread.call(shelf.ask, "hangs")
    with pytest.raises(StoreUnavailableError, match="has not answered for more than"):
        await thread.call(shelf.ask, "never asked")
    await thread.close()
    shelf.gate.set()
    while True:
        try:
            assert await thread.call(shelf.ask, "asked again") == "asked again"
        except StoreUnavailableError:
            continue
        break
    assert shelf.did[:3] == ["open", "hangs", "asked again"]


async def test_who_is_cancelled_stops_waiting(shelf: Shelf, thread: StoreThread) -> None:
    shelf.gate.clear()
    first = asyncio.create_task(thread.call(shelf.ask, "a"))
    second = asyncio.create_task(thread.call(shelf.ask, "b"))
    await settled()
    second.cancel()
    await settled()
    shelf.gate.set()
    assert await first == "a"
    assert await thread.call(shelf.ask, "c") == "c"
    assert second.cancelled()
    assert shelf.did == ["open", "a", "c"]
