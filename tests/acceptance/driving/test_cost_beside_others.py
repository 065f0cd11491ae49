"""A turn costs the same, whatever others have under way: the steps of the interpreter are counted, on the loop of all actors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import pytest

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy

FEW, MANY = 10, 3_000
TURNS = 20
"""Turns whose steps are counted. Their median counts: the first may meet what is left of the others' beginning, and since 3.12
Python does not count all steps of code that it traces for the first time."""

MOST = 1.15
"""How many times the steps beside few a turn may take beside many."""


class GatedModel:
    """Answers at once, or when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if "wait" in str(request.contents[-1]):
            await self.may_answer.wait()
        yield LlmResponse(content=Content.of_text("ok", role="model"))

    async def answer(self) -> None:
        """Answer all that wait. To be called on the loop on which they do."""
        self.may_answer.set()


class Steps:
    """Counts the steps of the thread in which it is begun. Loops in C are one step each."""

    def __init__(self) -> None:
        self.count = 0

    async def begin(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._called)

    async def end(self) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.count += event == "opcode"
        return self._step


async def steps_beside(rt: Runtime, others: int) -> int:
    """The steps of a turn while so many others wait for their model, in the same way as before."""
    portal = rt._client._portal
    assert portal is not None
    counted = []
    for _ in range(TURNS):
        steps = Steps()
        await portal.run_async(steps.begin())
        await rt.run(user_id="me", session_id="mine", message="hello")
        await portal.run_async(steps.end())
        counted.append(steps.count)
    assert (await rt.aio.statistics()).runner.counts["running"] == others
    return int(median(counted))


def in_sessions_of_their_own(number: int) -> tuple[str, str]:
    return f"user {number}", "s"


def in_sessions_of_one_user(number: int) -> tuple[str, str]:
    return "ada", f"s{number}"


def in_one_line(number: int) -> tuple[str, str]:
    return "ada", "s"


@pytest.mark.sampled(7, full=3)
@pytest.mark.parametrize("where", [in_sessions_of_their_own, in_sessions_of_one_user, in_one_line])
@pytest.mark.parametrize("many", [300, pytest.param(MANY, marks=pytest.mark.full)])
async def test_a_turn_takes_no_more_steps_beside_many_turns_than_beside_few(where: Any, many: int, tmp_path: Path) -> None:
    model = GatedModel()
    settings = Settings(max_waiting_session_turns=MANY)
    async with Deploy("local", tmp_path)(LlmAgent(name="root", model=model), settings=settings) as rt:
        for _ in range(3):
            await rt.run(user_id="me", session_id="mine", message="hello")
        turns: list[Any] = []
        taken: list[int] = []
        for number in (FEW, many):
            while len(turns) < number:
                user, session = where(len(turns))
                turns.append(rt.run(user_id=user, session_id=session, message="wait"))
            running = 1 if where is in_one_line else number
            while True:
                counts = (await rt.aio.statistics()).runner.counts
                if counts["running"] == running and counts["waiting"] == number - running:
                    break
                await asyncio.sleep(0.05)
            taken.append(await steps_beside(rt, running))
        portal = rt._client._portal
        assert portal is not None
        await portal.run_async(model.answer())
        for turn in turns:
            await turn
    few, beside_many = taken
    assert few > 1_000
    assert beside_many < MOST * few, taken
