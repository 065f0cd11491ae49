"""A server that has more to do than it can refuses new turns before it reads them, so that what it has taken is served in time.

A refusal by the Runtime costs a server as much as reading the request, finding its user and asking. When more comes than it can
refuse that way, requests wait in its event loop, and their clients learn only after seconds that they have to come again. So a
part of them, as much as it takes, is answered by what stands ready. Requests that start no turn are served always.

While the lines of a deployment are full its servers know it, and any new turn would be refused whatever its request says. So it
is answered without being read as well, by what the Runtime would say, unless it may be the repeat of one that is there, which is
joined. The same where all its places are taken by streams and by requests that wait for the end of a turn: each that wants such a
place is refused, a repeat too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

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

RETRY_AFTER_S = "1"

REFUSED_UNREAD = "POST, refused unread"
"""The operation as which they are counted, with the status 503, or 429 where the lines were full or all places taken."""

_STARTS = ("/turns", "/answers", "/retry", "/run", "/run_sse")
"""How the paths of requests end that start turns, or have them go on."""

_BUSY = Problem(
    type="ServerBusyError",
    title="The server has too much to do",
    status=503,
    detail="more turns are asked for than this server can look at: ask again",
)

_log = logging.getLogger(__name__)


class Shedding:
    """Looks at the event loop of a server while requests come, and says which of them are refused.

    Args:
        refusal: gives the error that any new turn would get of the Runtimes; None when there may be room for one.
        no_place: gives the error that a request would get which waits for the end of a turn; None when there is a place.

    Attributes:
        refused: how many were since the server has too much to do.
        refused_at_limits: how many were since the lines were full, or all places taken.
    """

    def __init__(self, refusal: Callable[[], OverloadedError | None], no_place: Callable[[], HttpError | None]) -> None:
        self.refused = 0
        self.refused_at_limits = 0
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
        self.refused += 1
        now_s = time.monotonic()
        told_s, told = self._told or (now_s - TOLD_EACH_S, 0)
        if now_s - told_s >= TOLD_EACH_S:
            _log.warning("this server has too much to do: %d new turns were refused unread so far", self.refused - told)
            self._told = now_s, self.refused
        return True

    def at_limits(self, scope: Scope) -> tuple[Problem, str] | None:
        """The problem of a request while the lines are full, or all places are taken; None: it is to be read.

        Returns:
            With the seconds after which the client may come again.
        """
        answer = None
        if _starts_turn(scope) and not _leaves_at_once(scope) and (full := self._no_place()) is not None:
            answer = _told(full, full.headers["Retry-After"], "as many streams are open as may be")
        elif _is_new_turn(scope) and (refusal := self._refusal()) is not None:
            answer = _told(refusal, str(retry_after(refusal)), "as many turns wait as may")
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
    """Refuses new turns before their bodies are read."""

    def __init__(self, app: ASGIApp, shedding: Shedding) -> None:
        self._app = app
        self._shedding = shedding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or refuse it."""
        if scope["type"] == "http":
            self._shedding.note_request()
            if self._shedding.is_on and _starts_turn(scope) and self._shedding.refuses():
                await _answer(send, _BUSY, RETRY_AFTER_S)
                return
            if (answer := self._shedding.at_limits(scope)) is not None:
                # Each step of a request takes a pass of the loop, and there are many when this much comes.
                await _answer(send, *answer)
                return
        await self._app(scope, receive, send)


def _told(error: Exception, after_s: str, why: str) -> tuple[Problem, str]:
    # Whose request it is was not read: how much there is is for those who have shown their credentials.
    return msgspec.structs.replace(problem_of(error), detail=f"{why}: ask again in {after_s} s"), after_s


async def _answer(send: Send, problem: Problem, after_s: str) -> None:
    body = msgspec.json.encode(problem)
    headers = [
        (b"content-type", PROBLEM.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", after_s.encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
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
