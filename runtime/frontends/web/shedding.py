"""A server that has more to do than it can refuses new turns before it reads them, so that what it has taken is served in time.

A refusal by the Runtime costs a server as much as reading the request, finding its user and asking. When more comes than it can
refuse that way, requests wait in its event loop, and their clients learn only after seconds that they have to come again. So a
part of them, as much as it takes, is answered by bytes that stand ready. Requests that start no turn are served always.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.rules.capacity.load_shedding import LoadShedding
from runtime.frontends.web.problems import PROBLEM, Problem

LOOK_S = 0.01
"""Seconds between two looks at the event loop."""

QUIET_LOOKS = 100
"""So many looks without a request, and the loop is looked at no more until the next one."""

TOLD_EACH_S = 60.0
"""Seconds between two lines of the log that say how many were refused."""

RETRY_AFTER_S = 1

UNREAD = "raygrove.unread"
"""Where the scope of a request says that it was not refused before it was read; it is not refused after that."""

REFUSED_UNREAD = ("POST, refused unread", 503)
"""The operation and the status as which they are counted."""

_STARTS = ("/turns", "/answers", "/retry", "/run", "/run_sse")
"""How the paths of requests end that start turns, or have them go on."""

_HEAD = re.compile(
    rb"POST [^ ?\r\n]*(?:%s)(?:\?[^ \r\n]*)? HTTP/1\.1\r\n" % b"|".join(re.escape(each.encode()) for each in _STARTS)
)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,7})[ \t]*\r\n")
_OTHER_WAY = re.compile(
    rb"transfer-encoding|\r\n(?:connection|expect|upgrade|origin)|\r\n[ \t]|content-length.*content-length", re.DOTALL
)
"""What a request has that is not answered by the bytes that stand ready: its headers are read first."""

_PROBLEM = Problem(
    type="ServerBusyError",
    title="The server has too much to do",
    status=503,
    detail="more turns are asked for than this server can look at: ask again",
)
_BODY = msgspec.json.encode(_PROBLEM)
_HEADERS = [
    (b"content-type", PROBLEM.encode()),
    (b"content-length", str(len(_BODY)).encode()),
    (b"retry-after", str(RETRY_AFTER_S).encode()),
    (b"cache-control", b"no-store"),
]
RESPONSE = b"\r\n".join([b"HTTP/1.1 503 Service Unavailable", *(b": ".join(each) for each in _HEADERS), b"", _BODY])
"""The bytes of the answer."""

_log = logging.getLogger(__name__)


class Shedding:
    """Looks at the event loop of a server while requests come, and says which of them are refused.

    Attributes:
        refused: how many were.
    """

    def __init__(self) -> None:
        self.refused = 0
        self._rule = LoadShedding()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._requests = 0
        self._quiet_looks = 0
        self._told: tuple[float, int] | None = None

    @property
    def is_on(self) -> bool:
        """True while some of the new requests are refused."""
        return self._rule.share > 0

    def note_request(self) -> None:
        """A request has come."""
        self._requests += 1
        if self._timer is None:
            self._look_later()

    def refuses(self) -> bool:
        """Whether a new request that starts a turn is refused. Each has to be asked for once."""
        if not self.is_on or not self._rule.refuses_next():
            return False
        self.note_request()
        self.refused += 1
        now_s = time.monotonic()
        told_s, told = self._told or (now_s - TOLD_EACH_S, 0)
        if now_s - told_s >= TOLD_EACH_S:
            _log.warning("this server has too much to do: %d new turns were refused unread so far", self.refused - told)
            self._told = now_s, self.refused
        return True

    def _look_later(self) -> None:
        self._due_s = time.monotonic() + LOOK_S
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        self._rule.look(time.monotonic() - self._due_s, self._requests)
        self._quiet_looks = 0 if self._requests else self._quiet_looks + 1
        self._requests = 0
        if self._quiet_looks < QUIET_LOOKS or self.is_on:
            self._look_later()


class UnreadRefused:
    """Refuses new turns before their bodies are read, where the server that runs the application does not do so by itself.

    Args:
        app: what it stands before.
        shedding: says which.
    """

    def __init__(self, app: ASGIApp, shedding: Shedding) -> None:
        self._app = app
        self._shedding = shedding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] == "http":
            self._shedding.note_request()
            if self._shedding.is_on and UNREAD not in scope and _starts_turn(scope) and self._shedding.refuses():
                await send({"type": "http.response.start", "status": 503, "headers": _HEADERS})
                await send({"type": "http.response.body", "body": _BODY})
                return
        await self._app(scope, receive, send)


def is_whole_start(data: bytes) -> bool:
    """True for the bytes of one whole request that starts a turn, and whose headers need not be read for the answer."""
    end = data.find(b"\r\n\r\n")
    if end < 0 or _HEAD.match(data) is None:
        return False
    head = data[: end + 2].lower()
    length = _LENGTH.search(head)
    return length is not None and len(data) == end + 4 + int(length[1]) and _OTHER_WAY.search(head) is None


def _starts_turn(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].endswith(_STARTS))
