"""The cost of activation: first messages compared with second ones, and the memory of many agents in few processes."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Content, LlmAgent, LlmRequest, LlmResponse
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import ROOT, run_turn, runtime

NAME = "activation"
HOSTS = 16
"""Processes for the agents whose memory is measured."""
AT_ONCE = 50
MB = 1_000_000

_SHARED_OUT = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


class LikeGemini:
    """Answers at once, but loads what a Gemini model does."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        await asyncio.to_thread(__import__, "google.genai")
        yield LlmResponse(content=Content.of_text("ok", role="model"))


def tree(agents: int, model: object) -> LlmAgent:
    """A root that hands over at once to whichever of so many agents is named."""
    children = [LlmAgent(name=f"agent_{number}", model=model) for number in range(agents)]
    ways = [(rf"^{child.name}$", {"transfer": child.name}) for child in children]
    return LlmAgent(name=ROOT, model=PatternModel(ways), sub_agents=children)


def measure(plan: Plan) -> list[Figure]:
    """First messages with a spare process and without one, and memory. The local engine has no processes."""
    return [*_first_messages(plan, spares=1), *_first_messages(plan, spares=0), *_memory(plan)]


def _first_messages(plan: Plan, *, spares: int) -> list[Figure]:
    """New agents and one that lives are handed to by turns, each in a new session: so all else is the same."""
    model = PatternModel([], default="ok")
    cold: list[float] = []
    warm: list[float] = []
    with TemporaryDirectory() as folder, runtime(plan, tree(plan.cold + 1, model), Path(folder), spare_hosts=spares) as rt:
        run_turn(rt, "first", "agent_0")
        for number in range(1, plan.cold + 1):
            _until_ready(plan, rt, spares)
            # The actors have slept during the wait; wake them before the measurement.
            run_turn(rt, f"wake {number}", "agent_0")
            warm.append(timed_ms(partial(run_turn, rt, f"warm {number}", "agent_0")))
            cold.append(timed_ms(partial(run_turn, rt, f"cold {number}", f"agent_{number}")))
    which = "a process stands ready" if spares else "none stands ready"
    live = Figure("second message: median", median(warm), "ms")
    return [
        *([live] if spares else []),
        Figure(f"first message, {which}: median", median(cold), "ms", median(warm), "one that lives"),
    ]


def _until_ready(plan: Plan, rt: Runtime, spares: int) -> None:
    while plan.engine == "ray" and rt.statistics().runner.counts["spares"] < spares:
        time.sleep(0.02)


def _memory(plan: Plan) -> list[Figure]:
    """The maximum memory of all processes, this one and Ray's own included, sampled after every so many agents."""
    names = [f"agent_{number}" for number in range(plan.touched)]
    figures = []
    with (
        TemporaryDirectory() as folder,
        ThreadPoolExecutor(AT_ONCE) as drivers,
        runtime(plan, tree(plan.touched, LikeGemini()), Path(folder), max_live_agents=HOSTS) as rt,
    ):
        for how, at_once in (("one after the other", 1), (f"{AT_ONCE} at once", AT_ONCE)):
            most = 0
            for start in range(0, plan.touched, AT_ONCE):
                some = names[start : start + AT_ONCE]
                talk = partial(_talk, rt, how)
                _ = list(map(talk, some)) if at_once == 1 else list(drivers.map(talk, some))
                most = max(most, sum(map(_memory_of, {os.getpid(), *_below(os.getpid())})))
            name = f"memory (PSS) of everything, {plan.touched} agents, {how}"
            figures.append(Figure(name, most / MB, "MB"))
    return figures


def _talk(rt: Runtime, how: str, agent: str) -> None:
    assert run_turn(rt, f"{how} {agent}", agent)[-1].text == "ok"


def _memory_of(pid: int) -> int:
    """Proportional set size of a process: shared pages count by share, so that the sum over processes is right."""
    try:
        found = _SHARED_OUT.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0


def _below(pid: int) -> Iterator[int]:
    """All processes that a process has started, and those have."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _below(child)
