"""The threads of tools: a call that never returns takes none away from the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from runtime.engine.process.tool_threads import ToolThreads, WatchedThreads

PATIENCE_S = 30.0


class Stuck:
    """Calls that do not return until `door` is open."""

    def __init__(self) -> None:
        self.door = threading.Event()
        self.entered = threading.Semaphore(0)

    def __call__(self) -> str:
        self.entered.release()
        self.door.wait()
        return "back"

    def wait_for(self, number: int) -> None:
        """Wait until so many calls more have begun."""
        for _ in range(number):
            assert self.entered.acquire(timeout=PATIENCE_S)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.door.set()


@pytest.fixture
def threads() -> Iterator[ToolThreads]:
    made = ToolThreads(2)
    yield made
    made.shutdown()


def begin(threads: ToolThreads, stuck: Stuck, number: int) -> list[Future[str]]:
    calls = [threads.submit(stuck) for _ in range(number)]
    stuck.wait_for(number)
    return calls


def test_it_makes_calls_and_tells_what_they_raise(threads: ToolThreads) -> None:
    assert [threads.submit(divmod, number, 2).result(PATIENCE_S) for number in range(50)] == [divmod(n, 2) for n in range(50)]
    with pytest.raises(SystemExit):
        threads.submit(sys.exit, 1).result(PATIENCE_S)
    assert threads.left == 0


def test_no_more_calls_run_at_the_same_time_than_the_limit_says(threads: ToolThreads, stuck: Stuck) -> None:
    begin(threads, stuck, 2)
    third = threads.submit(stuck)
    assert not third.running()
    stuck.door.set()
    assert third.result(PATIENCE_S) == "back"


def test_calls_that_were_given_up_leave_all_threads_to_the_others(threads: ToolThreads, stuck: Stuck) -> None:
    for number in range(1, 11):
        (call,) = begin(threads, stuck, 1)
        assert not call.cancel()
        assert threads.left == number
    begin(threads, stuck, 2)
    assert threads.stuck(0) == 10
    assert threads.stuck(60) == 0


def test_a_call_that_waits_gets_the_place_of_one_that_is_given_up(threads: ToolThreads, stuck: Stuck) -> None:
    first, _ = begin(threads, stuck, 2)
    waiting = threads.submit(stuck)
    first.cancel()
    first.cancel()
    stuck.wait_for(1)
    assert waiting.running()
    assert threads.left == 1


def test_threads_that_come_back_count_again_and_there_are_never_too_many(threads: ToolThreads, stuck: Stuck) -> None:
    calls = begin(threads, stuck, 2)
    for call in calls:
        call.cancel()
    calls += begin(threads, stuck, 2)
    stuck.door.set()
    assert [call.result(PATIENCE_S) for call in calls] == ["back"] * 4
    again = Stuck()
    begin(threads, again, 2)
    assert threads.left == 0
    third = threads.submit(again)
    assert not third.running()
    again.door.set()
    assert third.result(PATIENCE_S) == "back"


def test_a_call_that_has_not_begun_is_cancelled_and_leaves_nothing_behind(threads: ToolThreads, stuck: Stuck) -> None:
    begin(threads, stuck, 2)
    waiting = threads.submit(stuck)
    assert waiting.cancel()
    assert threads.left == 0


def test_after_its_end_it_takes_no_calls_and_its_threads_are_gone(stuck: Stuck) -> None:
    made = ToolThreads(2)
    thread = made.submit(threading.current_thread).result(PATIENCE_S)
    begin(made, stuck, 1)
    made.shutdown(cancel_futures=True)
    with pytest.raises(RuntimeError, match="shut down"):
        made.submit(stuck)
    stuck.door.set()
    # Not all threads of its name: a Runtime that other tests share may have one.
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


STUCK_PROGRAM = """
import asyncio, threading
from runtime.engine.process.tool_threads import ToolThreads

async def main():
    threads = ToolThreads(1)
    asyncio.get_running_loop().set_default_executor(threads)
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stay():
        loop.call_soon_threadsafe(entered.set)
        threading.Event().wait()

    call = asyncio.create_task(asyncio.to_thread(stay))
    await entered.wait()
    call.cancel()
    print(await asyncio.to_thread(str, "free"), threads.left)

asyncio.run(main())
"""


def test_a_program_ends_although_a_call_never_returns() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK_PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "free 1\n"


async def leave_behind(stuck: Stuck, number: int) -> None:
    for _ in range(number):
        call = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, stuck))
        # Not in a thread of the loop's executor, which is what is tested.
        while not stuck.entered.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)


@pytest.mark.parametrize(("number", "told"), [(0, []), (3, []), (4, ["worn out"]), (6, ["worn out"])])
async def test_a_process_with_too_many_threads_left_behind_says_so_once(stuck: Stuck, number: int, told: list[str]) -> None:
    heard: list[str] = []
    threads = WatchedThreads(2, lambda: heard.append("worn out"))
    threads.use()
    threads.use()
    await leave_behind(stuck, number)
    await asyncio.sleep(0)
    assert (threads.left, heard) == (number, told)


async def test_threads_that_stay_away_wear_it_out_although_there_are_few(stuck: Stuck) -> None:
    worn_out = asyncio.Event()
    threads = WatchedThreads(2, worn_out.set, stuck_s=0.05)
    threads.use()
    await leave_behind(stuck, 1)
    async with asyncio.timeout(PATIENCE_S):
        await worn_out.wait()
    stuck.door.set()
