"""The connections of a server: how many there are, and how long each may take for what it sends and reads.

A connection is *known* once a request with valid credentials has come over it. Others cost their client nothing, so they are
closed first when there are too many: the oldest of all, or of their address. A server in use is not shut by clients that say
nothing. Many that come in one moment, as from a proxy, are another thing: what they say is read first.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from runtime.frontends.web.operation import CONNECTION
from runtime.frontends.web.problems import PROBLEM, Problem
from runtime.frontends.web.shedding import UNREAD, Shedding, body_to_come

LINGER_S = 2.0
"""How long the rest of a body may come that is not read any more. Closed at once, a client might not get its response."""

LOOKS_PER_LIMIT = 8
"""How often a limit of time is looked at within it."""

MOST_CONNECTIONS = 4_096

LOOK_AGAIN_S = 0.05
"""How long a server that is full of known clients looks for no other one to close."""

MOST_LEAVING = 512
"""Connections that have their last answer and may still send something. Beyond so many they are closed at once."""

IDLE_S = 5.0
"""So long a connection is left to a client that asks for nothing, though there are too many."""

SETTLE_S = 0.05
"""How long a connection that was idle for its time is still read from. uvloop comes to its timers before it reads: a server that
was held up would close a connection over which a request has come."""

_TOO_MANY = "TooManyConnectionsError"


@dataclass(frozen=True)
class ConnectionLimits:
    """What clients may take of a server. Where a limit is reached, others are still served.

    Attributes:
        max_connections: how many there may be; None: 4,096, or half of the files that the process may open, if that is less.
        max_unknown_per_client: connections of one address over which no valid credentials have come yet, for 2 s.
        head_timeout_s: how long the head of a request may take, from the connection or from its first byte on.
        unread_timeout_s: in this time a client has to read `min_bytes_per_s` of what waits for it.
        min_bytes_per_s: the slowest that a client may read.
        idle_timeout_s: how long a connection may be idle between two requests. Clients and proxies close theirs after 5 to 60 s,
            and have to be the first: a request that comes when a server closes is lost. Where there are too many,
            the server closes idle ones earlier.
    """

    max_connections: int | None = None
    max_unknown_per_client: int = 128
    head_timeout_s: float = 10.0
    unread_timeout_s: float = 45.0
    min_bytes_per_s: int = 1_024
    idle_timeout_s: float = 75.0

    @property
    def most(self) -> int:
        """The number of connections that there may be."""
        if self.max_connections is not None:
            return self.max_connections
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 2)


class HttpConnections:
    """All connections of a server. They belong to one event loop.

    Args:
        shedding: says which new turns are refused unread.
    """

    def __init__(self, limits: ConnectionLimits, shedding: Shedding) -> None:
        self.limits = limits
        self.shedding = shedding
        self._most = limits.most
        # By age: dictionaries keep the order.
        self._all: dict[HttpConnection, None] = {}
        self._unknown: dict[str, dict[HttpConnection, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._none_before_s = 0.0
        self._leaving: dict[HttpConnection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._all)

    def protocol(self, *args: Any, **named: Any) -> asyncio.Protocol:
        """A connection that begins: what uvicorn takes for a class of protocols."""
        return HttpConnection(self, *args, **named)

    def add(self, connection: HttpConnection) -> None:
        """Take a connection, for which an older one may have to go: one without credentials, whose client waits for no answer.

        Where none may, it is refused itself.
        """
        if len(self._all) >= self._most:
            oldest = self._oldest_that_may_go()
            if oldest is None:
                connection.refuse(503, _TOO_MANY, f"this server has {self._most} connections, which is its limit")
                return
            self._close(oldest)
        self._all[connection] = None
        self._unknown.setdefault(connection.address, {})[connection] = None
        if self._timer is None:
            self._look_later()

    def know(self, connection: HttpConnection) -> None:
        """Valid credentials have come over a connection."""
        self._forget_unknown(connection)

    def discard(self, connection: HttpConnection) -> None:
        """A connection has ended."""
        if (timer := self._leaving.pop(connection, None)) is not None:
            timer.cancel()
        self._all.pop(connection, None)
        self._forget_unknown(connection)

    def leave(self, connection: HttpConnection) -> None:
        """A connection has its last answer. Closed at once, with bytes that were not read, its client might not get that."""
        if len(self._leaving) >= MOST_LEAVING or not connection.transport.can_write_eof():
            connection.transport.close()
            return
        connection.drain()
        self._leaving[connection] = asyncio.get_running_loop().call_later(LINGER_S, connection.transport.abort)

    def _oldest_that_may_go(self) -> HttpConnection | None:
        """The oldest without credentials whose client waits for nothing, or the oldest that is idle."""
        if (now_s := time.monotonic()) < self._none_before_s:
            return None
        found = next((each for each in self._all if not (each.is_known or each.is_asking)), None)
        found = found or next((each for each in self._all if each.idle_s > IDLE_S), None)
        if found is None:
            # Many come when there are too many, and to look through all for each of them would hold up the others.
            self._none_before_s = now_s + LOOK_AGAIN_S
        return found

    def _close(self, connection: HttpConnection) -> None:
        self.discard(connection)
        if connection.is_known:
            connection.transport.close()
            return
        connection.refuse(503, _TOO_MANY, "there are too many connections without credentials: come again")

    def _close_unknown(self, of_client: Mapping[HttpConnection, None]) -> None:
        """Close the oldest of an address that are too many, as far as there was time to read what they say."""
        too_many = len(of_client) - self.limits.max_unknown_per_client
        for connection in [each for each in islice(of_client, max(0, too_many)) if each.had_time]:
            self._close(connection)

    def _forget_unknown(self, connection: HttpConnection) -> None:
        of_client = self._unknown.get(connection.address, {})
        of_client.pop(connection, None)
        if not of_client:
            self._unknown.pop(connection.address, None)

    def _look(self) -> None:
        self._timer = None
        now_s = time.monotonic()
        for connection in list(self._all):
            connection.check(now_s)
        for of_client in list(self._unknown.values()):
            self._close_unknown(of_client)
        if self._all:
            self._look_later()

    def _look_later(self) -> None:
        pause_s = min(self.limits.head_timeout_s, self.limits.unread_timeout_s, LINGER_S) / LOOKS_PER_LIMIT
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._look)


class HttpConnection(H11Protocol):
    """One connection.

    Attributes:
        is_known: valid credentials have come over it.
        looks: how often it was looked at; between two of them all is read that has come.
    """

    def __init__(self, connections: HttpConnections, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._connections = connections
        self._limits = connections.limits
        self.timeout_keep_alive = connections.limits.idle_timeout_s  # type: ignore[assignment]
        self.is_known = False
        self.looks = 0
        self._served: Callable[..., Awaitable[None]] = self.app
        self.app = self._serve
        self._was_let_through = False
        self._waiting = b""
        self._skipped = 0
        self._head_since_s: float | None = time.monotonic()
        self._is_heard = False
        self._is_refused = False
        self._rest_until_s: float | None = None
        self._unread: tuple[float, int] | None = None

    @property
    def address(self) -> str:
        """Where its client is."""
        return self.client[0] if self.client is not None else ""

    @property
    def is_asking(self) -> bool:
        """A request of its waits for an answer."""
        return bool(self._waiting) or (self.cycle is not None and not self.cycle.response_complete)

    @property
    def idle_s(self) -> float:
        """The time for which it has waited for the next request; 0 where it does not."""
        timer = self.timeout_keep_alive_task
        return 0.0 if timer is None else self.loop.time() - timer.when() + self.timeout_keep_alive

    @property
    def had_time(self) -> bool:
        """All that it said early is read, and no request of its waits for an answer.

        That many looks take 2 s at least, unless a limit of time is shorter. A busy proxy may open hundreds of connections before
        it comes to say something over the first one.
        """
        return self.looks > LOOKS_PER_LIMIT and not self.is_asking

    def know(self) -> None:
        """Valid credentials have come over it."""
        if not self.is_known:
            self.is_known = True
            self._connections.know(self)

    def drain(self) -> None:
        """Say that nothing more comes, and throw away what the client still sends."""
        self._is_refused = True
        self.transport.write_eof()

    def refuse(self, status: int, type: str, detail: str) -> None:
        """Answer with a problem, although there is no request yet, or not all of it, and end the connection."""
        phrase = HTTPStatus(status).phrase
        body = msgspec.json.encode(Problem(type=type, title=phrase, status=status, detail=detail))
        lines = [f"HTTP/1.1 {status} {phrase}", f"content-type: {PROBLEM}", f"content-length: {len(body)}", "connection: close"]
        if status == 503:
            lines.append("retry-after: 1")
        self.transport.write("\r\n".join((*lines, "", "")).encode() + body)
        self._connections.leave(self)

    def check(self, now_s: float) -> None:
        """End it where it takes too long."""
        self.looks += 1
        if self.transport.is_closing() or self._is_refused:
            return
        if self._rest_until_s is not None and now_s > self._rest_until_s:
            self.transport.abort()
        elif self._head_since_s is not None and now_s - self._head_since_s > self._limits.head_timeout_s:
            if self._is_heard:
                self.refuse(408, "RequestTimeoutError", f"no whole request came within {self._limits.head_timeout_s:g} s")
            else:
                self.transport.close()
        elif not self.flow.write_paused:
            self._unread = None
        else:
            self._check_reader(now_s)

    def _check_reader(self, now_s: float) -> None:
        unread = self.transport.get_write_buffer_size()
        since_s, before = self._unread = self._unread or (now_s, unread)
        if now_s - since_s > self._limits.unread_timeout_s:
            if before - unread < self._limits.unread_timeout_s * self._limits.min_bytes_per_s:
                self.transport.abort()
            self._unread = None

    async def _serve(self, scope: dict[str, Any], receive: object, send: object) -> None:
        more = {CONNECTION: self, UNREAD: True} if self._was_let_through else {CONNECTION: self}
        await self._served({**scope, **more}, receive, send)

    # What asyncio and uvicorn call.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._connections.discard(self)
        super().connection_lost(exc)
        # It and what it has would hold each other, and each connection would leave garbage for the collector.
        self.app = self._served

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self._is_refused:
            return
        self._is_heard = True
        if self._skipped:
            # The rest of a request that was answered unread.
            rest, self._skipped = data[self._skipped :], max(self._skipped - len(data), 0)
            if not rest:
                return
            data = rest
        if not self.is_asking and self.conn.their_state is h11.IDLE:
            self._was_let_through = False
            if self._is_answered_unread(data):
                return
            if self._was_let_through and not self._connections.shedding.line.may_pass():
                self._wait(data)
                return
        if self._waiting:
            self._waiting += data
        else:
            self._read(data)

    def _wait(self, data: bytes) -> None:
        """Leave a request unread until those before it are read."""
        self._waiting = data
        self._head_since_s = None
        self._unset_keepalive_if_required()
        self.transport.pause_reading()
        self._connections.shedding.line.add(self._read_waiting)

    def _read_waiting(self) -> None:
        data, self._waiting = self._waiting, b""
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self._read(data)

    def _read(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE and self._head_since_s is None:
            self._head_since_s = time.monotonic()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_since_s = None

    def _is_answered_unread(self, data: bytes) -> bool:
        """Refuse what has come, if it is a request that may be refused, and that is not let through."""
        if self.conn.trailing_data[0] or (to_come := body_to_come(data)) is None:
            return False
        answer = self._connections.shedding.answer(data, is_whole=not to_come)
        if answer is None:
            self._was_let_through = True
            return False
        self.transport.write(answer)
        self._skipped = to_come
        # As after any other answer, it may be silent for a while.
        self.looks, self._head_since_s = 0, None
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        return True

    def timeout_keep_alive_handler(self) -> None:
        """Close it, unless a request has come by now that was not read yet."""
        self.timeout_keep_alive_task = self.loop.call_later(SETTLE_S, super().timeout_keep_alive_handler)

    def on_response_complete(self) -> None:
        """Go on with the next request, unless the rest of this one still comes."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._rest_until_s = time.monotonic() + LINGER_S
