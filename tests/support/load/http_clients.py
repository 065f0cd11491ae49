"""A program that asks a server for turns: clients in a process of their own, so that nobody else's work is in what they measure.

Its arguments: the URL of the server, and the name of its app. It reads orders, each a line of JSON, and tells of each what has
become of its turns. A turn is noted from when it was due, whatever kept this program from beginning it, and from when its request
was handed to the kernel.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import cast

import msgspec
import uvloop

from tests.benchmarks.figures import percentile
from tests.support.servers.web_load import LENGTH, RETRY_AFTER, STATUS, address_of, turn_request

SESSIONS, USERS = 400, 40
"""Sessions that are spoken to at a time, and users in all."""

TURNS_EACH = 8
"""Turns of a session, after which another one takes its place: so long is the history of the last turn as that of the first."""

AT_ONCE = 64
"""Turns under way while the rate is measured that a deployment bears."""

TICK_S = 0.001
IDLE_S = 1.0
"""A connection that was idle for longer is not used again: the server may be closing it."""


class Tally(msgspec.Struct):
    """What has become of turns.

    Attributes:
        answered: so many.
        answered_ms, refused_ms: how long each took, from when it was due: to begin it, as to connect, is part of that.
        refused_sent_ms: the same from when its request was sent; of a Runtime, which is called, there is none.
        waits_s: after which those that were refused may come again.
        errors: what else happened.
    """

    answered: int = 0
    answered_ms: list[float] = []
    refused_ms: list[float] = []
    refused_sent_ms: list[float] = []
    waits_s: list[float] = []
    errors: dict[str, int] = {}

    def add(self, other: Tally) -> None:
        """Add what has become of others."""
        self.answered += other.answered
        self.answered_ms += other.answered_ms
        self.refused_ms += other.refused_ms
        self.refused_sent_ms += other.refused_sent_ms
        self.waits_s += other.waits_s
        for error, times in other.errors.items():
            self.errors[error] = self.errors.get(error, 0) + times

    def note_error(self, error: str) -> None:
        """A turn was neither answered nor refused."""
        self.errors[error[:200]] = self.errors.get(error[:200], 0) + 1

    def __str__(self) -> str:
        answered, refused, sent = (
            f"p50 {percentile(took_ms or [0.0], 50):.1f} ms, p99 {percentile(took_ms or [0.0], 99):.1f} ms"
            for took_ms in (self.answered_ms, self.refused_ms, self.refused_sent_ms)
        )
        return (
            f"{self.answered} answered, {answered}; {len(self.refused_ms)} refused, {refused}; from when they were sent, {sent}; "
            f"{self.errors}"
        )


class Bear(msgspec.Struct, tag=True):
    """An order: always as many turns under way, for so long."""

    seconds: float


class Overload(msgspec.Struct, tag=True):
    """An order: so many turns a second, for so long, whether or not earlier ones have ended."""

    seconds: float
    per_s: float


class Told(msgspec.Struct):
    """What has become of the turns of an order, and how many a second were answered, until the last one was."""

    tally: Tally
    per_s: float


def places() -> Iterator[tuple[str, str]]:
    """User and session of one turn after the other."""
    for number in count():
        session = number // (SESSIONS * TURNS_EACH) * SESSIONS + number % SESSIONS
        yield f"u{session % USERS}", f"s{session}"


class Client(asyncio.Protocol):
    """A connection for one request after the other.

    Args:
        lost: called when it has ended in the midst of a request.

    Attributes:
        idle_since_s: when its last response has come.
        is_open: it may be used again.
    """

    def __init__(self, lost: Callable[[str], None]) -> None:
        self.idle_since_s = 0.0
        self.is_open = True
        self._lost = lost
        self._take: Callable[[int, bytes], None] | None = None
        self._came = b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are of no class of asyncio.
        self._transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._take is not None:
            self._lost(f"the connection ended before the response: {error or self._came!r}")

    def ask(self, request: bytes, take: Callable[[int, bytes], None]) -> None:
        """Send a request, and have a function take status and head of its response, or all of one that is unexpected."""
        self._take = take
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._take is None:
            # The server closes connections that are too many with an answer.
            self.close()
            return
        self._came += data
        head, end, body = self._came.partition(b"\r\n\r\n")
        status, length = STATUS.match(head), LENGTH.search(head)
        if not end or status is None or length is None or len(body) < int(length[1]):
            return
        take, came = self._take, self._came
        self._take, self._came, self.idle_since_s = None, b"", time.perf_counter()
        if b"\r\nconnection: close" in head.lower():
            self.close()
        take(int(status[1]), head if status[1] in (b"200", b"429", b"503") else came)

    def close(self) -> None:
        self.is_open = False
        self._transport.close()


class HttpClients:
    """The clients of a server.

    Args:
        url: the server's.
        app: the app that is asked.
    """

    def __init__(self, url: str, app: str) -> None:
        self._address = address_of(url)
        self._app = app
        self._places = places()
        self._idle: list[Client] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._tally = Tally()
        self._under_way = 0
        self._all_ended = asyncio.Event()
        self._then: Callable[[], None] = lambda: None

    async def carry_out(self, order: Bear | Overload) -> Told:
        """Do what was ordered, and wait until each turn has its answer."""
        self._tally, began_s = Tally(), time.perf_counter()
        match order:
            case Bear():
                self._bear(began_s + order.seconds)
            case Overload():
                await self._overload(began_s, order)
        await self._all_ended.wait()
        return Told(self._tally, self._tally.answered / (time.perf_counter() - began_s))

    def _bear(self, end_s: float) -> None:
        def again() -> None:
            if (now_s := time.perf_counter()) < end_s:
                self._begin(now_s)

        self._then = again
        for _ in range(AT_ONCE):
            again()

    async def _overload(self, began_s: float, order: Overload) -> None:
        self._then = lambda: None
        number, most = 0, round(order.per_s * order.seconds)
        while number < most:
            while number < most and (due_s := began_s + number / order.per_s) <= time.perf_counter():
                self._begin(due_s)
                number += 1
            await asyncio.sleep(TICK_S)

    def _begin(self, due_s: float) -> None:
        user, session = next(self._places)
        request = turn_request(f"/v1/apps/{self._app}/sessions/{session}/turns?user={user}", "go on")
        self._under_way += 1
        self._all_ended.clear()
        while self._idle:
            client = self._idle.pop()
            if client.is_open and client.idle_since_s > time.perf_counter() - IDLE_S:
                self._ask(client, request, due_s)
                return
            client.close()
        task = asyncio.ensure_future(self._connect(request, due_s))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, request: bytes, due_s: float) -> None:
        try:
            _, client = await asyncio.get_running_loop().create_connection(lambda: Client(self._fail), *self._address)
        except OSError as error:
            self._fail(str(error))
        else:
            self._ask(client, request, due_s)

    def _ask(self, client: Client, request: bytes, due_s: float) -> None:
        sent_s = time.perf_counter()

        def take(status: int, head: bytes) -> None:
            now_s = time.perf_counter()
            if client.is_open:
                self._idle.append(client)
            if status == 200:
                self._tally.answered += 1
                self._tally.answered_ms.append((now_s - due_s) * 1_000)
            elif told := RETRY_AFTER.search(head):
                self._tally.refused_ms.append((now_s - due_s) * 1_000)
                self._tally.refused_sent_ms.append((now_s - sent_s) * 1_000)
                self._tally.waits_s.append(float(told[1]))
            else:
                self._tally.note_error(head.decode(errors="replace"))
            self._end()

        client.ask(request, take)

    def _fail(self, error: str) -> None:
        self._tally.note_error(error)
        self._end()

    def _end(self) -> None:
        self._under_way -= 1
        self._then()
        if not self._under_way:
            self._all_ended.set()


async def main(url: str, app: str) -> None:
    """Carry out orders until there are no more."""
    # What it takes to look for garbage would be in the figures.
    gc.freeze()
    gc.disable()
    clients = HttpClients(url, app)
    for line in sys.stdin.buffer:
        told = await clients.carry_out(msgspec.json.decode(line, type=Bear | Overload))
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:3]))
