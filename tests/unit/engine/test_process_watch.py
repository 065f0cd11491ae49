"""What wears a process out: an event loop that stands still, and threads that do not come back."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.engine.process.process_watch import ProcessWatch, why_too_large
from runtime.engine.process.tool_threads import is_worn_out

GIB = 2**30


async def test_what_holds_the_loop_is_named_with_its_line() -> None:
    told: list[str] = []
    is_told = threading.Event()

    def tell(what: str) -> None:
        told.append(what)
        is_told.set()

    async def holds_the_loop() -> None:
        assert is_told.wait(30)

    watch = ProcessWatch(tell)
    try:
        await asyncio.create_task(holds_the_loop(), name="tool 'slow' of agent 'root'")
    finally:
        watch.stop()
    assert len(told) == 1
    assert "tool 'slow' of agent 'root' does not let go of it" in told[0].replace("\n", " ")
    assert "assert is_told.wait(30)" in told[0]


def test_a_process_ends_itself_above_its_own_limit_or_when_it_has_taken_the_nodes_memory() -> None:
    node = {"used": 9 * GIB, "total": 10 * GIB, "threshold": 0.95}
    assert "Placement(memory=…)" in why_too_large(2 * GIB, limit=GIB, **node)  # type: ignore[arg-type]
    assert why_too_large(2 * GIB, limit=0, **node) == ""  # type: ignore[arg-type]
    full = {**node, "used": 9.5 * GIB}
    assert "Ray would end other processes next" in why_too_large(2 * GIB, limit=0, **full)  # type: ignore[arg-type]
    # A small process is not what has taken the memory.
    assert why_too_large(GIB // 2, limit=0, **full) == ""  # type: ignore[arg-type]
    assert why_too_large(2 * GIB, limit=0, used=0, total=0, threshold=0.95) == ""


@pytest.mark.parametrize(
    ("threads", "left", "stuck", "expected"),
    [
        (64, 0, 0, False),
        (64, 31, 31, False),
        (64, 32, 32, True),
        (64, 127, 0, False),
        (64, 128, 0, True),
        (1, 1, 0, False),
        (1, 1, 1, True),
        (1, 2, 0, True),
    ],
)
def test_half_of_the_threads_stuck_or_twice_as_many_left_behind_wear_a_process_out(
    threads: int, left: int, stuck: int, expected: bool
) -> None:
    assert is_worn_out(threads, left=left, stuck=stuck) is expected


@given(st.integers(1, 100), st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_a_process_gets_no_better_by_losing_more_threads(threads: int, left: int, stuck: int, more: int) -> None:
    stuck = min(stuck, left)
    if is_worn_out(threads, left=left, stuck=stuck):
        assert is_worn_out(threads, left=left + more, stuck=stuck)
        assert is_worn_out(threads, left=left + more, stuck=stuck + more)
    assert not is_worn_out(threads, left=0, stuck=0)
