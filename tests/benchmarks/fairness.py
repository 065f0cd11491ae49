"""A user's turn while another user, in another program, has asked for thousands at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import APP, SENTENCE, instant_agent, runtime

NAME = "fairness"

ALONE = 50
"""Turns that are measured before."""


def measure(plan: Plan) -> list[Figure]:
    """Turns of one user, alone and beside the backlog of another one."""
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(plan, Path(folder)))


async def _measure(plan: Plan, folder: Path) -> list[Figure]:
    async with runtime(plan, instant_agent(), folder) as rt:
        await _turn_ms(rt, "warm up")
        alone_ms = median([await _turn_ms(rt, "s") for _ in range(ALONE)])
        beside_ms = []
        async with _backlog_beside(rt, plan) as done:
            began_s = time.perf_counter()
            while not done.done():
                beside_ms.append(await _turn_ms(rt, "s"))
            took_s = time.perf_counter() - began_s
    told = f"beside {plan.backlog:,} turns of another user"
    return [
        Figure("a turn, alone: median", alone_ms, "ms"),
        Figure(f"a turn, {told}: median", median(beside_ms), "ms"),
        Figure(f"a turn, {told}: longest", max(beside_ms), "ms"),
        Figure("the other user's turns: rate", plan.backlog / took_s, "turns/s"),
    ]


async def _turn_ms(rt: Runtime, session: str) -> float:
    began_s = time.perf_counter()
    await rt.run(user_id="bob", session_id=session, message=SENTENCE)
    return (time.perf_counter() - began_s) * 1_000


@asynccontextmanager
async def _backlog_beside(rt: Runtime, plan: Plan) -> AsyncIterator[asyncio.Task[object]]:
    """The task is done when the other user's turns are. They come from another program, unless there can be none."""
    if plan.engine == "local":
        yield asyncio.create_task(_ask(rt, plan.backlog))
        return
    command = [sys.executable, "-m", "tests.benchmarks.fairness", str(rt.address), str(plan.backlog)]
    other = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin is not None
    assert other.stdout is not None
    assert await other.stdout.readline() == b"ready\n"
    other.stdin.write(b"go\n")
    yield asyncio.create_task(other.stdout.readline())
    await other.wait()


async def _ask(rt: Runtime, turns: int) -> None:
    """Ask for all turns at once, each in a session of its own."""
    await asyncio.gather(*(rt.run(user_id="ada", session_id=f"s{number}", message=SENTENCE) for number in range(turns)))


async def _join_and_ask(address: str, turns: int) -> None:
    """Ask for the turns as soon as a line comes."""
    async with Runtime.connect(APP, address=address) as rt:
        await rt.run(user_id="ada", session_id="warm up", message=SENTENCE)
        print("ready", flush=True)
        sys.stdin.readline()
        await _ask(rt, turns)
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_join_and_ask(sys.argv[1], int(sys.argv[2])))
