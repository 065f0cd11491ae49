"""A store in a thread: opened late, asked in order, and given up in time; a long line of calls is no outage."""

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


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def thread(shelf: Shelf) -> StoreThread:
    return StoreThread(shelf, "shelf", 60.0)


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


async def test_what_a_store_refuses_is_raised_as_it_is_any_other_error_by_its_name_and_neither_is_tried_again(
    shelf: Shelf, thread: StoreThread
) -> None:
    await thread.call(shelf.ask)
    for refusal in (StoreError("no such table"), SessionNotFoundError("app", "ada", "s1")):
        shelf.failures = [refusal]
        with pytest.raises(RaygroveError) as caught:
            await thread.call(shelf.ask)
        assert caught.value is refusal
    for kind in (ValueError, OSError, TimeoutError):
        shelf.failures = [kind("its own fault")]
        with pytest.raises(StoreError, match=r"the shelf: \w+Error: its own fault"):
            await thread.call(shelf.ask)
    assert shelf.did == ["open"] + ["ask"] * 6


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


@pytest.mark.parametrize(("raised", "heard"), [(ValueError("no"), ValueError), (StopIteration("no"), RuntimeError)])
async def test_what_a_call_raises_is_heard_and_the_next_one_is_made(raised: Exception, heard: type[Exception]) -> None:
    def fail() -> None:
        raise raised

    worker = Worker("shelf")
    with pytest.raises(heard, match="no"):
        await worker.begin_job(fail).answer
    assert await worker.begin_job(len, "four").answer == 4


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
    """A store that counts."""

    asked = 0

    def __str__(self) -> str:
        return "the counter"

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def count(self) -> int:
        """The number of this call."""
        self.asked += 1
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
