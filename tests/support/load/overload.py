"""More turns than a deployment bears, begun at an even rate whether or not earlier ones have ended; and as many as it bears."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Protocol

import msgspec

from actors import LlmAgent
from actors.errors import OverloadedError
from actors.testing import PatternModel, Reply
from runtime import Runtime
from tests.support.load.http_clients import AT_ONCE, Bear, Overload, Tally, Told, places

TICK_S = 0.01

BLOCK_S = 1.25
"""How long one is asked before the other is: the speed of a host changes within half a minute, by as much as 1.4."""


def looking_agent() -> LlmAgent:
    """An agent that looks something up twice before it answers: a turn has three calls of the model and two of a tool."""

    def look_up(where: str) -> str:
        """Look something up."""
        return f"{where}: found"

    steps: list[tuple[str, Reply]] = [
        ("tool:.*there", "It is there."),
        ("tool:.*here", {"call": "look_up", "args": {"where": "there"}}),
        ("go on", {"call": "look_up", "args": {"where": "here"}}),
    ]
    return LlmAgent(name="root", model=PatternModel(steps, default="ok"), tools=[look_up])


class Load(Protocol):
    """Asks a deployment for turns."""

    async def bears_per_s(self, seconds: float, tally: Tally) -> float:
        """The turns a second that end while always as many are under way."""

    async def overload(self, per_s: float, seconds: float, tally: Tally) -> None:
        """Begin turns at a rate, and wait until each has its answer."""


async def by_turns(seconds: float, tally: Tally, *loads: Load) -> tuple[float, ...]:
    """The turns a second that each bears, asked by turns, the first of them first, for so long each."""
    blocks = max(1, round(seconds / BLOCK_S))
    rates = [[await load.bears_per_s(seconds / blocks, tally) for load in loads] for _ in range(blocks)]
    return tuple(mean(of_one) for of_one in zip(*rates, strict=True))


class RuntimeLoad:
    """A program of the deployment asks, by `rt.run`. A turn is due when that is called."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._places = places()

    async def bears_per_s(self, seconds: float, tally: Tally) -> float:
        began_s, before = time.perf_counter(), tally.answered

        async def work() -> None:
            while time.perf_counter() - began_s < seconds:
                await self._run(tally)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return (tally.answered - before) / (time.perf_counter() - began_s)

    async def overload(self, per_s: float, seconds: float, tally: Tally) -> None:
        asked: set[asyncio.Task[None]] = set()
        began_s, number = time.perf_counter(), 0
        while (now_s := time.perf_counter() - began_s) < seconds:
            while number < now_s * per_s:
                task = asyncio.create_task(self._run(tally))
                asked.add(task)
                task.add_done_callback(asked.discard)
                number += 1
            await asyncio.sleep(TICK_S)
        await asyncio.gather(*asked)

    async def _run(self, tally: Tally) -> None:
        """Run one turn, in the session whose turn it is, and note what becomes of it."""
        began_s = time.perf_counter()
        user, session = next(self._places)
        try:
            await self._rt.run(user_id=user, session_id=session, message="go on")
        except OverloadedError as error:
            tally.refused_ms.append((time.perf_counter() - began_s) * 1_000)
            tally.waits_s.append(error.retry_after_s)
        except Exception as error:
            tally.note_error(f"{type(error).__name__}: {error}")
        else:
            tally.answered += 1
            tally.answered_ms.append((time.perf_counter() - began_s) * 1_000)


class HttpLoad:
    """Clients of a server ask, in a process of their own.

    Args:
        process: the program `http_clients`.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    async def bears_per_s(self, seconds: float, tally: Tally) -> float:
        return (await self._told(Bear(seconds), tally)).per_s

    async def overload(self, per_s: float, seconds: float, tally: Tally) -> None:
        await self._told(Overload(seconds, per_s), tally)

    async def _told(self, order: Bear | Overload, tally: Tally) -> Told:
        told = msgspec.json.decode(await asyncio.to_thread(self._send, msgspec.json.encode(order)), type=Told)
        tally.add(told.tally)
        return told

    def _send(self, order: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@contextmanager
def clients_of(url: str, app: str) -> Iterator[HttpLoad]:
    """Clients of a server, while the block lasts."""
    command = [sys.executable, "-m", "tests.support.load.http_clients", url, app]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield HttpLoad(process)
        finally:
            process.kill()
