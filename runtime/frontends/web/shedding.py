"""A server that has more to do than it can refuses new turns before it reads them, so that what it has taken is served in time.

A refusal by the Runtime costs a server as much as reading the request, finding its user and asking. When more comes than it can
refuse that way, requests wait in its event loop, and their clients learn only after seconds that they have to come again. So a
part of them, as much as it takes, is answered by bytes that stand ready. Requests that start no turn are served always.

While the lines of a deployment are full its servers know it, and any new turn would be refused whatever its request says. So it
is answered without being read as well, by what the Runtime would say, unless it may be the repeat of one that is there, which is
joined. A server knows it also by what it has let through itself: its turns that have not begun, and requests that it has yet to
read. The same where all its places are taken by streams and by requests that wait for the end of a turn: each that wants such a
place is refused, a repeat too.

To read a request for a turn, find its user and ask for its turn takes a server many times as long as to refuse one, and so does
the answer of a turn that has ended. When many come at once, or many end at once, a pass of the event loop would do a step of
all of them, and requests that are refused would wait for it. So a pass does a few, and the others wait in their order.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from actors.errors import OverloadedError
from runtime.frontends.web.load_shedding import LoadShedding
from runtime.frontends.web.problems import PROBLEM, HttpError, Problem, problem_of, retry_after

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
"""The operation as which they are counted, with the status 503, or 429 where the lines were full or all places taken."""

_STARTS = ("/turns", "/answers", "/retry", "/run", "/run_sse")
"""How the paths of requests end that start turns, or have them go on."""

_HEAD = re.compile(
    rb"POST [^ ?\r\n]*(?:%s)(?:\?[^ \r\n]*)? HTTP/1\.1\r\n" % b"|".join(re.escape(each.encode()) for each in _STARTS)
)
_REPEATS = re.compile(rb"\r\nidempotency-key[ \t]*:|invocation", re.IGNORECASE)
"""What a request has that may be a repeat: it names its turn."""

_NEEDS_NO_PLACE = re.compile(rb"\r\nprefer[ \t]*:[^\r\n]*respond-async", re.IGNORECASE)
"""What a request has that waits for nothing but the start of its turn."""

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

AT_ONCE = 4
"""Requests that one pass of the event loop reads, and turns with which it goes on: some milliseconds of work."""


class PassLine:
    """A line of one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._passed = 0

    def __len__(self) -> int:
        """The number of those that wait, or have passed in this pass: they do their work in the next one."""
        return len(self._waiting) + self._passed

    def may_pass(self) -> bool:
        """Whether one need not wait; it counts as passed then. Else it has to wait."""
        if self._waiting or self._passed == AT_ONCE:
            return False
        self._note_passed()
        return True

    def add(self, go_on: Callable[[], object]) -> None:
        """One waits, and goes on with this function."""
        self._waiting.append(go_on)

    async def come_up(self) -> None:
        """Wait until the running coroutine may go on."""
        if not self.may_pass():
            up = asyncio.Event()
            self.add(up.set)
            await up.wait()

    def _note_passed(self) -> None:
        self._passed += 1
        if self._passed == 1:
            asyncio.get_running_loop().call_soon(self._next_pass)

    def _next_pass(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < AT_ONCE:
            self._note_passed()
            self._waiting.popleft()()


class PassLines:
    """A line for each event loop: an application may be served by several servers."""

    def __init__(self) -> None:
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, PassLine] = WeakKeyDictionary()

    async def come_up(self) -> None:
        """Wait in the line of the running loop until the running coroutine may go on."""
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = PassLine()
        await line.come_up()


HeadersAndBody = tuple[list[tuple[bytes, bytes]], bytes]
"""Of an answer."""

_log = logging.getLogger(__name__)


class AnyRefusal(Protocol):
    """Gives the error that any new turn would get: see Runtime.refusal."""

    def __call__(self, *, again: bool, unread: int) -> OverloadedError | None:
        """None when a turn may be asked for."""


class Shedding:
    """Looks at the event loop of a server while requests come, and says which of them are refused.

    Args:
        refusal: gives the error that any new turn would get of the Runtimes: see Runtime.refusal.
        no_place: gives the error that a request would get which waits for the end of a turn: see StreamSlots.refusal.

    Attributes:
        refused: how many were since the server has too much to do.
        refused_at_limits: how many were since the lines were full, or all places taken.
        line: the others, until they are read.
    """

    def __init__(self, refusal: AnyRefusal, no_place: Callable[[int], HttpError | None]) -> None:
        self.refused = 0
        self.refused_at_limits = 0
        self.line = PassLine()
        self._refusal = refusal
        self._no_place = no_place
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
        told = self._at_limits(data, is_whole=is_whole)
        if told is None:
            return None
        self.note_request()
        self.refused_at_limits += 1
        return _response(*told)

    def _at_limits(self, data: bytes, *, is_whole: bool) -> HeadersAndBody | None:
        full = self._no_place(len(self.line))
        if full is not None and _NEEDS_NO_PLACE.search(data) is None:
            return _without_place(full)
        kind = _NEW.match(data)
        # A turn that is repeated is named in the headers, or by ADK's clients in the body.
        if kind is None or _REPEATS.search(data) is not None or (kind[1] != b"turns" and not is_whole):
            return None
        refusal = self._refusal(again=False, unread=len(self.line))
        return _by_lines(refusal) if refusal is not None else None

    def late_answer(self, scope: Scope) -> HeadersAndBody | None:
        """The same of a request that was let through before the lines were known to be full, or all places to be taken."""
        answer = None
        if _starts_turn(scope) and not _leaves_at_once(scope) and (full := self._no_place(0)) is not None:
            answer = _without_place(full)
        elif _is_new_turn(scope) and (refusal := self._refusal(again=True, unread=0)) is not None:
            answer = _by_lines(refusal)
        self.refused_at_limits += answer is not None
        return answer

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
    """Refuses new turns before their bodies are read, where the server that runs the application does not do so by itself."""

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
            if (answer := self._shedding.late_answer(scope)) is not None:
                # Each step of a request takes a pass of the loop, and there are many when this much comes.
                await _answer(send, 429, *answer)
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


def _response(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    """The answer to a request that is refused at a limit, as bytes."""
    return b"\r\n".join([b"HTTP/1.1 429 Too Many Requests", *(b": ".join(each) for each in headers), b"", body])


def _by_lines(refusal: OverloadedError) -> HeadersAndBody:
    """The answer to a turn that the Runtime would refuse."""
    return _told(refusal, str(retry_after(refusal)), "as many turns wait as may")


def _without_place(full: HttpError) -> HeadersAndBody:
    """The answer to a request that wants a place where there is none."""
    return _told(full, full.headers["Retry-After"], "as many streams are open as may be")


def _told(error: Exception, after_s: str, why: str) -> HeadersAndBody:
    # Whose request it is was not read: how much there is is for those who have shown their credentials.
    detail = f"{why}: ask again in {after_s} s"
    body = msgspec.json.encode(msgspec.structs.replace(problem_of(error), detail=detail))
    headers = [
        (b"content-type", PROBLEM.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", after_s.encode()),
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


def _leaves_at_once(scope: Scope) -> bool:
    """True for a request that waits for nothing but the start of its turn."""
    return any(name == b"prefer" and b"respond-async" in value.lower() for name, value in scope["headers"])


def _starts_turn(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["path"].endswith(_STARTS))
