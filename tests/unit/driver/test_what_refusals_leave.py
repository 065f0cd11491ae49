"""Refused turns leave nothing, however many there are: no garbage that only the collector finds, and nothing that is kept."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.errors import OverloadedError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.turns.refusals import Refusals
from runtime.settings import Settings
from tests.support.runtimes import Deploy

AT_ONCE = 100

GARBAGE, KEPT = 100, 2_000
"""Objects at most, however many are refused: those that begin in between are kept in the caches of their sessions."""


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Python looks for garbage only where the test does."""
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    if was_enabled:
        gc.enable()


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
