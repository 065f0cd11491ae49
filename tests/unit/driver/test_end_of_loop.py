"""What is asked for in the moment in which a Runtime is closed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import RuntimeClosedError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.event_loop import Portal


def test_a_turn_that_is_cancelled_before_its_first_step_fails(tmp_path: Path) -> None:
    agent = LlmAgent(name="root", model=PatternModel([], default="hello"))
    runtime = Runtime(
        agent,
        app_name="closing",
        engine="local",
        session_store=f"sqlite:///{tmp_path}/s.db",
        artifact_store=f"file://{tmp_path}/a",
    )
    with runtime as rt:
        is_free = threading.Event()
        # Both come to the loop in the same pass, as where one thread closes a Runtime that another one uses.
        rt._client.call_soon(is_free.wait)
        turn = rt.run(user_id="ada", session_id="s", message="hi")
        rt._client.call_soon(rt._program.client()._work.cancel_all)
        is_free.set()
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            turn.result()


async def nothing() -> None:
    pass


def test_what_comes_to_a_loop_in_its_last_pass_is_cancelled() -> None:
    loop = asyncio.SelectorEventLoop()
    portal = Portal("closing", loop)
    is_held, is_free = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        is_free.wait()

    portal.call_soon(hold)
    is_held.wait()
    portal.call_soon(loop.stop)
    ends: list[type[BaseException]] = []

    def ask(work: Callable[[], object]) -> None:
        # Who looks at the loop only now is told that it has ended.
        with pytest.raises((CancelledError, asyncio.CancelledError, RuntimeClosedError)) as error:
            work()
        ends.append(error.type)

    ways = [lambda: portal.run(asyncio.sleep(60)), lambda: asyncio.run(portal.run_async(asyncio.sleep(60)))]
    threads = [threading.Thread(target=ask, args=(way,), daemon=True) for way in ways]
    for thread in threads:
        thread.start()
    while len(loop._ready) < 1 + len(ways):  # type: ignore[attr-defined]
        time.sleep(0.01)
    is_free.set()
    for thread in threads:
        thread.join(timeout=10)
    assert len(ends) == len(ways)
    portal._thread.join()
    loop.close()


def test_a_loop_that_has_ended_takes_nothing() -> None:
    portal = Portal("closing")
    portal.call_soon(portal._loop.stop)
    portal._thread.join()
    for _ in ("ended", "closed"):
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            portal.run(nothing())
        with pytest.raises(RuntimeClosedError, match="'closing' is closed"):
            asyncio.run(portal.run_async(nothing()))
        portal._loop.close()
