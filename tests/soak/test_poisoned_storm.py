"""Turns of many users, of which 5 % have a tool that ends its process, while processes are killed: no turn of others fails.

The variable SOAK_TURNS says how many turns; without it 1,500.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import Content, FunctionCall, LlmAgent, LlmRequest, LlmResponse, Part, ToolContext, tool
from runtime import Settings
from tests.chaos.storm import Here, read_whole
from tests.chaos.storm_faults import Faults
from tests.model.journal import Journal
from tests.model.judge import problems
from tests.support.runtimes import Deploy

TURNS = int(os.environ.get("SOAK_TURNS", "1500"))

AT_ONCE = 20

POISONED = 0.05

KILL_EVERY_S = 8.0


class Obedient:
    """Calls the tool that the message names, with its numbers."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        name, *takes_s = request.contents[0].text.split()
        part = Part(text="done")
        if not any(request.contents[-1].function_responses()):
            part = Part(function_call=FunctionCall(name=name, args=dict(zip(["takes_s"], map(float, takes_s), strict=False))))
        yield LlmResponse(content=Content(role="model", parts=[part]))


def payer(notes: Path) -> LlmAgent:
    @tool
    def pay(takes_s: float, tool_context: ToolContext) -> str:
        """Pay."""
        journal = Journal(notes)
        noted = journal.begin_tool(tool_context.function_call_id)
        time.sleep(takes_s)
        journal.end_tool(noted)
        return "paid"

    @tool
    def crash(tool_context: ToolContext) -> str:
        """End the process."""
        Journal(notes).begin_tool(tool_context.function_call_id)
        Journal(notes).lose("agent", ["payer"])
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    return LlmAgent(name="payer", model=Obedient(), tools=[pay, crash])


async def storm(deploy: Deploy, turns: int) -> tuple[list[str], Counter[str], Counter[str]]:
    """What is not as it should be; how many turns ended how; and what was killed."""
    notes, chance = deploy.folder / "notes", random.Random(4)
    notes.mkdir()
    journal, places = Journal(notes), asyncio.Semaphore(AT_ONCE)
    poisoned = set(chance.sample(range(turns), max(1, int(turns * POISONED))))

    async def run(here: Here, number: int) -> str:
        text = "crash" if number in poisoned else f"pay {random.Random(number).uniform(0, 0.5):.2f}"
        async with places:
            told = await here.do(
                "run", user=f"u{number % 50}", session=f"s{number}", turn=f"turn-{number}", message=Content.of_text(text)
            )
        return told.ended

    async def kill(faults: Faults) -> None:
        while True:
            await asyncio.sleep(KILL_EVERY_S)
            await faults.strike(chance.choice(["agent", "runner", "session"]), "kill")

    async with deploy(payer(notes), settings=Settings(max_live_agents=4, spare_hosts=2)) as rt:
        here, faults = Here(rt, journal), Faults(rt, journal, chance)
        killing = asyncio.create_task(kill(faults))
        ends = await asyncio.gather(*(run(here, number) for number in range(turns)))
        killing.cancel()
    wrong = [
        f"turn {number} ended with {end}"
        for number, end in enumerate(ends)
        if end != ("AgentLostError" if number in poisoned else "Finished")
    ]
    return [*wrong, *problems(read_whole(notes, deploy.folder, "test"))], Counter(ends), faults.happened


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("local_ray")
def test_no_turn_of_others_fails(tmp_path: Path) -> None:
    wrong, ends, killed = asyncio.run(storm(Deploy("ray", tmp_path), TURNS))
    print(ends, killed)
    assert not wrong


@pytest.mark.soak
@pytest.mark.usefixtures("local_ray")
def test_no_turn_of_others_fails_in_a_small_storm(tmp_path: Path) -> None:
    wrong, ends, _ = asyncio.run(storm(Deploy("ray", tmp_path), 60))
    assert not wrong
    assert ends["AgentLostError"] == 3
