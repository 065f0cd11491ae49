"""A store in a thread: opened late, waited for while it is away, given up in time.

A thread that makes calls in order, and gives their answers to the event loop that has asked.

Many calls of a store at once: a long line is no outage, and a store that hangs is noticed all the same.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.errors import RaygroveError, SessionNotFoundError, StoreError, StoreUnavailableError
from actors.session.store import store_thread
from actors.session.store.store_thread import Job, StoreThread, Watchdog, Worker
from tests.support.fixtures.session_fixture import settled
from tests.support.virtual_time import run_virtually

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


def ended(thread: threading.Thread) -> bool:
    thread.join(5)
    return not thread.is_alive()


async def test_calls_are_made_in_order_in_one_thread_that_keeps_no_process_alive() -> None:
    worker = Worker("shelf")
    made: list[int] = []

    def make(number: int) -> threading.Thread:
        made.append(number)
        return threading.current_thread()

    jobs = [worker.begin_job(make, number) for number in range(50)]
    (thread,) = set(await asyncio.gather(*(job.answer for job in jobs)))
    assert made == list(range(50))
    assert (thread.name, thread.daemon) == ("shelf", True)
    assert all(job.has_ended for job in jobs)


@pytest.mark.parametrize(("raised", "heard"), [(ValueError("no"), ValueError), (StopIteration("no"), RuntimeError)])
async def test_what_a_call_raises_is_heard_and_the_next_one_is_made(raised: Exception, heard: type[Exception]) -> None:
    def fail() -> None:
        raise raised

    worker = Worker("shelf")
    with pytest.raises(heard, match="no"):
        await worker.begin_job(fail).answer
    assert await worker.begin_job(len, "four").answer == 4


async def test_a_call_that_is_given_up_in_time_is_never_made() -> None:
    worker, begun, gate = Worker("shelf"), threading.Event(), threading.Event()
    made: list[str] = []

    def wait() -> None:
        begun.set()
        gate.wait()

    first = worker.begin_job(wait)
    second, third = worker.begin_job(made.append, "second"), worker.begin_job(made.append, "third")
    await asyncio.to_thread(begun.wait)
    assert (first.cancel(), second.cancel()) == (False, True)
    gate.set()
    await third.answer
    assert (made, third.cancel()) == (["third"], False)


def test_a_loop_that_is_closed_meanwhile_is_no_obstacle() -> None:
    worker, gate = Worker("shelf"), threading.Event()

    async def leave() -> None:
        worker.begin_job(gate.wait)

    async def come() -> int:
        return await worker.begin_job(len, "four").answer  # type: ignore[no-any-return]

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(come()) == 4


@pytest.mark.parametrize("how", ["ended", "forgotten"])
async def test_the_thread_ends_with_the_calls_before_its_end_or_when_it_is_forgotten(how: str) -> None:
    worker = Worker("shelf")
    thread = await worker.begin_job(threading.current_thread).answer
    pause = worker.begin_job(time.sleep, 0.05)
    late = worker.begin_job(threading.current_thread)
    if how == "ended":
        worker.end_thread()
    del worker
    gc.collect()
    assert await late.answer is thread
    assert (pause.has_ended, ended(thread)) == (True, True)


async def test_of_two_that_take_a_call_at_once_one_has_it() -> None:
    # The thread and the loop reach for the same job at about the same time.
    for _ in range(300):
        made: list[int] = []
        worker = Worker("shelf")
        add: Callable[[int], None] = made.append
        job = worker.begin_job(add, 1)
        was_cancelled = job.cancel()
        await worker.begin_job(len, "").answer
        assert len(made) == (0 if was_cancelled else 1)
        worker.end_thread()


PATIENCE_S = 5.0
TIMEOUT_S = 30.0


class PacedThread:
    """Stands in for the thread: makes the calls on the loop, in order. Each takes a second, unless it hangs for ever."""

    def __init__(self, name: str) -> None:
        self._line: deque[Job] = deque()
        self._at_work: asyncio.Task[None] | None = None
        self.hangs: set[int] = set()
        self.made = 0

    def begin_job(self, function: Callable[..., Any], *args: Any) -> Job:
        """Make a call after those before."""
        job = Job(function, args)
        self._line.append(job)
        if self._at_work is None or self._at_work.done():
            self._at_work = asyncio.create_task(self._work())
        return job

    def end_thread(self) -> None:
        """Nothing: no thread has to be ended."""

    async def _work(self) -> None:
        while self._line:
            job = self._line.popleft()
            self.made += 1
            if self.made in self.hangs:
                # It has begun, so it can no more be called off.
                job.cancel()
                return
            await asyncio.sleep(1.0)
            job.make()


class Counter:
    """A store that counts, and is away at some numbers."""

    def __init__(self) -> None:
        self.asked = 0
        self.away_at: set[int] = set()

    def __str__(self) -> str:
        return "the counter"

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def count(self) -> int:
        """The number of this call."""
        self.asked += 1
        if self.asked in self.away_at:
            raise StoreUnavailableError("the counter", "it is locked")
        return self.asked


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> PacedThread:
    thread = PacedThread("paced")
    monkeypatch.setattr(store_thread, "Worker", lambda name: thread)
    return thread


def counting(counter: Counter) -> StoreThread:
    return StoreThread(counter, "counter", TIMEOUT_S, patience_s=PATIENCE_S)


@pytest.mark.usefixtures("paced")
def test_a_line_that_is_longer_than_the_patience_is_no_outage() -> None:
    async def ask_all() -> list[int]:
        counter = Counter()
        thread = counting(counter)
        return await asyncio.gather(*(thread.call(counter.count) for _ in range(100)))

    assert run_virtually(ask_all()) == list(range(1, 101))


@pytest.mark.usefixtures("paced")
def test_a_store_that_fails_once_at_the_end_of_a_long_line_is_asked_again() -> None:
    async def ask_all() -> list[int]:
        counter = Counter()
        counter.away_at = {100}
        thread = counting(counter)
        return await asyncio.gather(*(thread.call(counter.count) for _ in range(100)))

    assert run_virtually(ask_all()) == [*range(1, 100), 101]


@pytest.mark.parametrize("before", [0, 1, 40])
def test_a_call_that_hangs_is_given_up_after_its_own_time_with_those_that_wait_for_it(paced: PacedThread, before: int) -> None:
    paced.hangs = {before + 1}

    async def ask_all() -> tuple[list[int | BaseException], float, int]:
        counter = Counter()
        thread = counting(counter)
        calls = [asyncio.create_task(thread.call(counter.count, waits=False)) for _ in range(before + 5)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        at_s = asyncio.get_running_loop().time()
        with pytest.raises(StoreUnavailableError, match="it has not answered for more than 5 s"):
            await thread.call(counter.count, waits=False)
        return results, at_s, counter.asked

    results, at_s, asked = run_virtually(ask_all())
    assert results[:before] == list(range(1, before + 1))
    assert [str(each) for each in results[before:]] == ["the counter is not available: no answer within 5 s"] * 5
    assert (at_s, asked) == (before + PATIENCE_S, before)


def test_a_call_whose_answer_waits_for_a_busy_loop_is_not_given_up() -> None:
    async def watch() -> list[Sequence[Job]]:
        stuck: list[Sequence[Job]] = []
        watchdog = Watchdog(PATIENCE_S, stuck.append)
        made, waiting = Job(int, ()), Job(int, ())
        watchdog.watch_job(made)
        watchdog.watch_job(waiting)
        made.make()
        await asyncio.sleep(3 * PATIENCE_S)
        assert stuck == []
        watchdog.unwatch_job(made)
        await asyncio.sleep(2 * PATIENCE_S)
        return stuck

    (jobs,) = run_virtually(watch())
    assert len(jobs) == 1


def test_calls_that_are_called_off_do_not_count_as_progress() -> None:
    async def watch() -> tuple[list[Sequence[Job]], float]:
        stuck: list[Sequence[Job]] = []
        watchdog = Watchdog(PATIENCE_S, stuck.append)
        hangs = Job(int, ())
        watchdog.watch_job(hangs)
        while not stuck:
            impatient = Job(int, ())
            watchdog.watch_job(impatient)
            await asyncio.sleep(1.0)
            watchdog.unwatch_job(impatient)
        return stuck, asyncio.get_running_loop().time()

    stuck, at_s = run_virtually(watch())
    assert (len(stuck), at_s) == (1, PATIENCE_S)
