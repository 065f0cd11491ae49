"""A thread that makes calls in order, and gives their answers to the event loop that has asked."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable

import pytest

from actors.session.store.store_thread import Worker


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
