"""More turns than a deployment bears, begun at an even rate whether or not earlier ones have ended; and as many as it bears."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from actors.errors import OverloadedError
from runtime import Runtime
from tests.benchmarks.figures import percentile
from tests.support.servers.web_load import RETRY_AFTER, Caller, turn_request

SESSIONS, USERS = 400, 40
AT_ONCE = 64
"""Turns under way while the rate is measured that a deployment bears."""

TICK_S = 0.01
IDLE_S = 1.0


class Refused(Exception):
    """A turn was refused. Argument: after how many seconds to ask again."""


Ask = Callable[[int], Awaitable[None]]
"""Runs a turn to its end, in the session of that number. Raises Refused."""


class Tally(msgspec.Struct):
    """What has become of turns.

    Attributes:
        answered: so many.
        answered_ms, refused_ms: how long each took, from when it was due.
        waits_s: after which those that were refused may come again.
        errors: what else happened.
    """

    answered: int = 0
    answered_ms: list[float] = []
    refused_ms: list[float] = []
    waits_s: list[float] = []
    errors: Counter[str] = msgspec.field(default_factory=Counter)

    def __str__(self) -> str:
        answered, refused = (
            f"p50 {percentile(took_ms or [0.0], 50):.1f} ms, p99 {percentile(took_ms or [0.0], 99):.1f} ms"
            for took_ms in (self.answered_ms, self.refused_ms)
        )
        return f"{self.answered} answered, {answered}; {len(self.refused_ms)} refused, {refused}; {dict(self.errors)}"


async def one(ask: Ask, number: int, tally: Tally) -> None:
    """Run one turn, and note what becomes of it."""
    began_s = time.perf_counter()
    try:
        await ask(number)
    except Refused as refused:
        tally.refused_ms.append((time.perf_counter() - began_s) * 1_000)
        tally.waits_s.append(float(refused.args[0]))
    except Exception as error:
        tally.errors[f"{type(error).__name__}: {error}"[:200]] += 1
    else:
        tally.answered += 1
        tally.answered_ms.append((time.perf_counter() - began_s) * 1_000)


async def bears_per_s(ask: Ask, seconds: float, tally: Tally) -> float:
    """The turns a second that end while always as many are under way."""
    began_s, before = time.perf_counter(), tally.answered

    async def work(first: int) -> None:
        number = first
        while time.perf_counter() - began_s < seconds:
            await one(ask, number, tally)
            number += AT_ONCE

    await asyncio.gather(*(work(first) for first in range(AT_ONCE)))
    return (tally.answered - before) / (time.perf_counter() - began_s)


async def overload(ask: Ask, per_s: float, seconds: float, tally: Tally) -> None:
    """Begin turns at a rate, and wait until each has its answer."""
    asked: set[asyncio.Task[None]] = set()
    began_s, number = time.perf_counter(), 0
    while (now_s := time.perf_counter() - began_s) < seconds:
        while number < now_s * per_s:
            task = asyncio.create_task(one(ask, number, tally))
            asked.add(task)
            task.add_done_callback(asked.discard)
            number += 1
        await asyncio.sleep(TICK_S)
    await asyncio.gather(*asked)


def of_runtime(rt: Runtime) -> Ask:
    """Asks a Runtime."""

    async def ask(number: int) -> None:
        try:
            await rt.run(user_id=f"u{number % USERS}", session_id=f"s{number % SESSIONS}", message="go on")
        except OverloadedError as error:
            raise Refused(error.retry_after_s) from error

    return ask


class Connections:
    """Connections to a server that are used again, unless they were idle for so long that the server may be closing them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[tuple[float, Caller]] = []

    async def exchange(self, request: bytes) -> tuple[int, bytes, bytes]:
        """Status, head and body of the response."""
        while self._idle and (self._idle[-1][0] < time.perf_counter() - IDLE_S or self._idle[-1][1].is_closed):
            self._idle.pop()[1].close()
        caller = self._idle.pop()[1] if self._idle else await Caller.to(self._url)
        found = await caller.exchange(request)
        self._idle.append((time.perf_counter(), caller))
        return found

    def close(self) -> None:
        """Close them."""
        for _, caller in self._idle:
            caller.close()


def of_server(connections: Connections, app: str) -> Ask:
    """Asks a server over HTTP."""

    async def ask(number: int) -> None:
        path = f"/v1/apps/{app}/sessions/s{number % SESSIONS}/turns?user=u{number % USERS}"
        status, head, body = await connections.exchange(turn_request(path, "go on"))
        if status == 429 and (told := RETRY_AFTER.search(head)):
            raise Refused(float(told[1]))
        if status != 200:
            raise RuntimeError(status, body)

    return ask
