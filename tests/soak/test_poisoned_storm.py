"""Turns of many users, of which 5 % have a tool that ends its process, while processes are killed: no turn of others fails.

The variable SOAK_TURNS says how many turns; without it 1,500.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from actors import Content, FunctionCall, LlmAgent, LlmRequest, LlmResponse, Part, tool
from actors.errors import AgentLostError
from runtime import Runtime, Settings
from tests.support.runtimes import Deploy

TURNS = int(os.environ.get("SOAK_TURNS", "1500"))

AT_ONCE = 20

POISONED = 0.05

KILL_EVERY_S = 8.0

STORED_S = 2.0
"""A result is in the log this long after its call has ended, on a machine that is busy."""


class Obedient:
    """Calls the tool that the message names, with its numbers."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """One step."""
        name, *numbers = request.contents[0].text.split()
        part = Part(text="done")
        if not any(request.contents[-1].function_responses()):
            args = dict(zip(("number", "takes_s"), map(float, numbers), strict=False))
            part = Part(function_call=FunctionCall(name=name, args={**args, "number": int(args["number"])}))
        yield LlmResponse(content=Content(role="model", parts=[part]))


def payer(notes: Path) -> LlmAgent:
    @tool
    def pay(number: int, takes_s: float) -> str:
        """Pay."""
        with notes.open("a") as file:
            file.write(f"began {number} {time.time()}\n")
        time.sleep(takes_s)
        with notes.open("a") as file:
            file.write(f"ended {number} {time.time()}\n")
        return f"paid {number}"

    @tool
    def crash(number: int) -> str:
        """End the process."""
        with notes.open("a") as file:
            file.write(f"crashed {number} {time.time()}\n")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    return LlmAgent(name="payer", model=Obedient(), tools=[pay, crash])


@contextmanager
def killing(rt: Runtime) -> Iterator[Counter[str]]:
    """Kill a process every few seconds: of agents, the Runner, or the Session actor."""
    killed: Counter[str] = Counter()
    over, chance = threading.Event(), random.Random(3)

    def kill() -> None:
        while not over.wait(KILL_EVERY_S):
            with suppress(Exception):
                figures = rt.statistics()
                agents = [each.pid for each in figures.agents.values()]
                pids = {"agents": agents, "runner": [figures.runner.pid], "session": [figures.session.pid]}
                # A process that does not answer has none: 0 would be that of all processes of this run.
                pids = {name: [pid for pid in found if pid] for name, found in pids.items()}
                who = chance.choice([name for name, found in pids.items() if found])
                os.kill(chance.choice(pids[who]), signal.SIGKILL)
                killed[who] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def storm(deploy: Deploy, turns: int) -> tuple[list[str], Counter[str], Counter[str]]:
    """What is not as it should be; how many turns ended how; and what was killed."""
    notes, chance = deploy.folder / "notes", random.Random(4)
    notes.touch()
    poisoned = set(chance.sample(range(turns), max(1, int(turns * POISONED))))
    with deploy(payer(notes), settings=Settings(max_live_agents=4, spare_hosts=2)) as rt, killing(rt) as killed:

        def run(number: int) -> str:
            text = f"crash {number}" if number in poisoned else f"pay {number} {random.Random(number).uniform(0, 0.5):.2f}"
            try:
                return rt.run(user_id=f"u{number % 50}", session_id=f"s{number}", message=text).result().text
            except AgentLostError:
                return "lost"
            except Exception as error:
                return f"{type(error).__name__}: {error}"

        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(run, range(turns)))
    wrong = [
        f"turn {number} ended with {end}" for number, end in enumerate(ends) if end != ("lost" if number in poisoned else "done")
    ]
    noted = [line.split() for line in notes.read_text().splitlines()]
    ended = {number: float(at_s) for what, number, at_s in noted if what == "ended"}
    wrong += [
        f"call {number} began again {float(at_s) - ended[number]:.1f} s after it had ended"
        for what, number, at_s in noted
        if what == "began" and number in ended and float(at_s) > ended[number] + STORED_S
    ]
    return wrong, Counter(ends), killed


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("local_ray")
def test_no_turn_of_others_fails(tmp_path: Path) -> None:
    wrong, ends, killed = storm(Deploy("ray", tmp_path), TURNS)
    print(ends, killed)
    assert not wrong


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_no_turn_of_others_fails_in_a_small_storm(tmp_path: Path) -> None:
    wrong, ends, _ = storm(Deploy("ray", tmp_path), 60)
    assert not wrong
    assert ends["lost"] == 3
