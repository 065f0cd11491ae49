"""A server that has more to do than it can refuses new turns before it reads them, so that what it has taken is served in time.

A refusal by the Runtime costs a server as much as reading the request, finding its user and asking. When more comes than it can
refuse that way, requests wait in its event loop, and their clients learn only after seconds that they have to come again. So a
part of them, as much as it takes, is answered by bytes that stand ready. Requests that start no turn are served always.

While the lines of a deployment are full its servers know it, and any new turn would be refused whatever its request says. So it
is answered without being read as well, by what the Runtime would say, unless it may be the repeat of one that is there, which is
joined. A server knows it also by what it has let through itself: its turns that have not begun, and requests that it has yet to
read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.errors import OverloadedError
from actors.rules.capacity.refusing.load_shedding import LoadShedding
from runtime.frontends.web.pass_line import PassLine
from runtime.frontends.web.problems import PROBLEM, Problem, problem_of, retry_after

LOOK_S = 0.01
"""Seconds between two looks at the event loop."""

QUIET_LOOKS = 100
"""So many looks without a request, and the loop is looked at no more until the next one."""

TOLD_EACH_S = 60.0
"""Seconds between two lines of the log that say how many were refused."""

RETRY_AFTER_S = 1

MOST_SKIPPED = 64 * 1024
"""Bytes of a body that are thrown away when they come after the answer."""

UNREAD = "raygrove.unread"
"""Where the scope of a request says that it was not refused before it was read; it is not refused after that."""

REFUSED_UNREAD = "POST, refused unread"
"""The operation as which they are counted, with the status 503, or 429 where the lines were full."""

_STARTS = ("/turns", "/answers", "/retry", "/run", "/run_sse")
"""How the paths of requests end that start turns, or have them go on."""

_HEAD = re.compile(
    rb"POST [^ ?\r\n]*(?:%s)(?:\?[^ \r\n]*)? HTTP/1\.1\r\n" % b"|".join(re.escape(each.encode()) for each in _STARTS)
)
_REPEATS = re.compile(rb"\r\nidempotency-key[ \t]*:|invocation", re.IGNORECASE)
"""What a request has that may be a repeat: it names its turn."""

_NEW = re.compile(rb"POST [^ ?\r\n]*/(turns|run|run_sse)[? ]")
"""How requests begin that start new turns; those that answer or retry one name it in their paths."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,7})[ \t]*\r\n")
_OTHER_WAY = re.compile(
    rb"transfer-encoding|\r\nconnection(?!:[ \t]*keep-alive[ \t]*\r\n)|\r\n(?:expect|upgrade|origin)|\r\n[ \t]"
    rb"|content-length.*content-length",
    re.DOTALL,
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
"""The bytes of the answer of a server that has too much to do."""

_log = logging.getLogger(__name__)


class AnyRefusal(Protocol):
    """Gives the error that any new turn would get: see Runtime.refusal."""

    def __call__(self, *, again: bool, unread: int) -> OverloadedError | None:
        """None when a turn may be asked for."""


def no_refusal(*, again: bool, unread: int) -> OverloadedError | None:
    """The refusal of a server without a Runtime."""
    return None


class Shedding:
    """Looks at the event loop of a server while requests come, and says which of them are refused.

    Args:
        refusal: gives the error that any new turn would get of the Runtimes: see Runtime.refusal.

    Attributes:
        refused: how many were since the server has too much to do.
        refused_by_lines: how many were since the lines were full.
        line: the others, until they are read.
    """

    def __init__(self, refusal: AnyRefusal = no_refusal) -> None:
        self.refused = 0
        self.refused_by_lines = 0
        self.line = PassLine()
        self._refusal = refusal
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

    def answer(self, data: bytes, *, is_whole: bool) -> bytes | None:
        """The answer to a request that starts a turn; None: it is to be read. Each has to be asked for once.

        Args:
            data: its bytes, those of its body as far as they have come.
            is_whole: nothing of it is to come.
        """
        if self.is_on and self.refuses():
            return RESPONSE
        kind = _NEW.match(data)
        # A turn that is repeated is named in the headers, or by ADK's clients in the body.
        if kind is None or _REPEATS.search(data) is not None or (kind[1] != b"turns" and not is_whole):
            return None
        if (refusal := self._refusal(again=False, unread=len(self.line))) is None:
            return None
        self.note_request()
        self.refused_by_lines += 1
        return _response(refusal)

    def late_refusal(self) -> OverloadedError | None:
        """The refusal of a new turn that was let through before the lines were known to be full."""
        refusal = self._refusal(again=True, unread=0)
        self.refused_by_lines += refusal is not None
        return refusal

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
                await _answer(send, 503, _HEADERS, _BODY)
                return
            if _is_new_turn(scope) and (refusal := self._shedding.late_refusal()) is not None:
                # Each step of a request takes a pass of the loop, and there are many when this much comes.
                await _answer(send, 429, *_told(refusal))
                return
        await self._app(scope, receive, send)


def body_to_come(data: bytes) -> int | None:
    """The bytes of the body of one request that starts a turn which are still to come, after its head and a part of its body.

    Many clients send head and body apart.

    Returns:
        None where the bytes are no such request, or its headers have to be read for the answer.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0 or _HEAD.match(data) is None:
        return None
    head = data[: end + 2].lower()
    length = _LENGTH.search(head)
    if length is None or _OTHER_WAY.search(head) is not None:
        return None
    left = end + 4 + int(length[1]) - len(data)
    return left if 0 <= left <= MOST_SKIPPED else None


def _response(refusal: OverloadedError) -> bytes:
    """The answer to a turn that the Runtime would refuse, as bytes."""
    headers, body = _told(refusal)
    return b"\r\n".join([b"HTTP/1.1 429 Too Many Requests", *(b": ".join(each) for each in headers), b"", body])


def _told(refusal: OverloadedError) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and body of the answer to a turn that the Runtime would refuse."""
    # Whose request it is was not read: how much waits is for those who have shown their credentials.
    detail = f"as many turns wait as may: ask again in {retry_after(refusal)} s"
    body = msgspec.json.encode(msgspec.structs.replace(problem_of(refusal), detail=detail))
    headers = [
        (b"content-type", PROBLEM.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(retry_after(refusal)).encode()),
        (b"cache-control", b"no-store"),
    ]
    return headers, body


async def _answer(send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_new_turn(scope: Scope) -> bool:
    """True where nothing in the head says that the turn may be there; the bodies of ADK's clients may."""
    if scope["method"] != "POST" or not scope["path"].endswith("/turns"):
        return False
    return all(name != b"idempotency-key" for name, _ in scope["headers"])


def _starts_turn(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].endswith(_STARTS))
