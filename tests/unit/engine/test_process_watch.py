"""An event loop that stands still is told of once, with what it runs and where."""

from __future__ import annotations

import asyncio
import threading

from runtime.engine.process.process_watch import ProcessWatch, why_too_large

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
