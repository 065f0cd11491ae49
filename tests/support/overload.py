"""More turns than a deployment bears, begun at an even rate whether or not earlier ones have ended; and as many as it bears."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import msgspec

from actors import LlmAgent
from actors.errors import OverloadedError
from actors.testing import PatternModel
from actors.testing.models import Reply
from runtime import Runtime
from tests.benchmarks.figures import percentile
from tests.support.servers.web_load import RETRY_AFTER, Caller, turn_request

SESSIONS, USERS = 400, 40
"""Sessions that are spoken to at a time, and users in all."""

TURNS_EACH = 8
"""Turns of a session, after which another one takes its place: so long is the history of the last turn as that of the first."""

AT_ONCE = 64
"""Turns under way while the rate is measured that a deployment bears."""

TICK_S = 0.01
IDLE_S = 1.0


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


class Refused(Exception):
    """A turn was refused. Argument: after how many seconds to ask again."""


Ask = Callable[[], Awaitable[None]]
"""Runs a turn to its end, in the session whose turn it is. Raises Refused."""


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


async def one(ask: Ask, tally: Tally) -> None:
    """Run one turn, and note what becomes of it."""
    began_s = time.perf_counter()
    try:
        await ask()
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

    async def work() -> None:
        while time.perf_counter() - began_s < seconds:
            await one(ask, tally)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return (tally.answered - before) / (time.perf_counter() - began_s)


async def overload(ask: Ask, per_s: float, seconds: float, tally: Tally) -> None:
    """Begin turns at a rate, and wait until each has its answer."""
    asked: set[asyncio.Task[None]] = set()
    began_s, number = time.perf_counter(), 0
    while (now_s := time.perf_counter() - began_s) < seconds:
        while number < now_s * per_s:
            task = asyncio.create_task(one(ask, tally))
            asked.add(task)
            task.add_done_callback(asked.discard)
            number += 1
        await asyncio.sleep(TICK_S)
    await asyncio.gather(*asked)


def _places() -> Iterator[tuple[str, str]]:
    """User and session of one turn after the other."""
    for number in count():
        session = number // (SESSIONS * TURNS_EACH) * SESSIONS + number % SESSIONS
        yield f"u{session % USERS}", f"s{session}"


def of_runtime(rt: Runtime) -> Ask:
    """Asks a Runtime."""
    places = _places()

    async def ask() -> None:
        user, session = next(places)
        try:
            await rt.run(user_id=user, session_id=session, message="go on")
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
        status, head, body = await caller.exchange(request)
        if b"connection: close" in head.lower():
            caller.close()
        else:
            self._idle.append((time.perf_counter(), caller))
        return status, head, body

    def close(self) -> None:
        """Close them."""
        for _, caller in self._idle:
            caller.close()


def of_server(connections: Connections, app: str) -> Ask:
    """Asks a server over HTTP."""
    places = _places()

    async def ask() -> None:
        user, session = next(places)
        path = f"/v1/apps/{app}/sessions/{session}/turns?user={user}"
        status, head, body = await connections.exchange(turn_request(path, "go on"))
        if status in (429, 503) and (told := RETRY_AFTER.search(head)):
            raise Refused(float(told[1]))
        if status != 200:
            raise RuntimeError(status, body)

    return ask
