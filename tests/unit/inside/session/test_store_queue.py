"""Many calls of a store at once: a long line is no outage, and a store that hangs is noticed all the same."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.errors import StoreUnavailableError
from actors.session.store import store_thread
from actors.session.store.store_thread import Job, StoreThread, Watchdog
from tests.support.virtual_time import run_virtually

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
