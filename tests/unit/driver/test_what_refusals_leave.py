"""Turns that cannot start leave nothing, however many there are: no garbage that only the collector finds, and nothing kept."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent, RunConfig
from actors.errors import InvalidIdError, OverloadedError, RaygroveError, SessionBusyError, SessionNotFoundError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.turns.client import Refusals
from runtime.settings import Settings
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy

pytestmark = pytest.mark.usefixtures("uncollected")

AT_ONCE = 100

GARBAGE, KEPT = 100, 2_000
"""Objects at most, however many are refused: those that begin in between are kept in the caches of their sessions."""


async def refuse(rt: Runtime, count: int) -> None:
    """Ask for turns until so many were refused, those that reach the Runner and those that do not."""
    refused = 0

    async def run(number: int) -> None:
        nonlocal refused
        try:
            await rt.run(user_id=f"u{number % 40}", session_id=f"s{number}", message="hi")
        except OverloadedError:
            refused += 1

    while refused < count:
        await asyncio.gather(*(run(number) for number in range(AT_ONCE)))


@pytest.mark.parametrize(("count", "by_runner"), [(100, False), (1_000, False), (10_000, False), (1_000, True)])
async def test_they_leave_no_garbage_and_nothing_is_kept(
    count: int, by_runner: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_runner:
        # As with many programs, each of which has been refused nothing yet.
        monkeypatch.setattr(Refusals, "ask", lambda *_: None)
    agent = LlmAgent(name="root", model=PatternModel([], default="hello"))
    async with Deploy("local", tmp_path)(agent, settings=Settings(max_waiting_turns=1)) as rt:
        # Each session is there, and each cache has what it keeps.
        for number in range(AT_ONCE):
            await rt.run(user_id=f"u{number % 40}", session_id=f"s{number}", message="hi")
        await refuse(rt, AT_ONCE)
        gc.collect()
        before = len(gc.get_objects())
        await refuse(rt, count)
        garbage = gc.collect()
        kept = len(gc.get_objects()) - before
    assert garbage < GARBAGE
    assert kept < KEPT


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"user_id": "ada", "session_id": " s"}, InvalidIdError),
        ({"user_id": "ada", "session_id": "new", "auto_create_session": False}, SessionNotFoundError),
        ({"user_id": "ada", "session_id": "busy", "run_config": RunConfig(on_concurrent_turn="reject")}, SessionBusyError),
    ],
)
async def test_nor_do_turns_that_cannot_start_for_another_reason(
    asked: dict[str, Any], error: type[RaygroveError], tmp_path: Path
) -> None:
    model = GatedModel(tmp_path, "done")
    async with Deploy("local", tmp_path)(LlmAgent(name="root", model=model)) as rt:
        busy = rt.run(user_id="ada", session_id="busy", message="wait")
        await asyncio.to_thread(model.wait_until_called)

        async def fail(times: int) -> None:
            failed = 0
            for _ in range(times):
                try:
                    await rt.run(**asked, message="hi")
                except error:
                    failed += 1
            assert failed == times

        await fail(10)
        gc.collect()
        await fail(100)
        garbage = gc.collect()
        await asyncio.to_thread(model.release)
        await busy
    assert garbage < GARBAGE
