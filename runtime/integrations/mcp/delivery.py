"""Whether an error of a request to an MCP server over HTTP is the server's answer, or means that there is none.

The library gives both as errors with a code, and a tool may answer with any code. So the HTTP client is watched: a request and
what comes of it run in the context of the caller, which reads here whether the connection or the session was lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2
import msgspec

from actors.messages import codec

_SESSION = "mcp-session-id"
_UNKNOWN_SESSION = (400, 404)
"""404 is the protocol's answer to a session that a server does not know, 400 that of many servers."""

_UNREACHED = (502, 503, 504)
"""What a proxy says while the server is started again."""

_UNAUTHORIZED = (401, 403)
"""What only other headers can change."""

_SESSION_CODES = (-32600, -32000, -32001)
"""The codes of JSON-RPC with which servers refuse a session; with other ones they refuse what was asked."""


class Delivery:
    """One request.

    Attributes:
        is_lost: no answer of the server can come any more.
        is_doubtful: it was answered with an error in a session, and the error may be about the session.
        refusal: why the server refuses all requests with these headers; "" if it does not.
    """

    def __init__(self) -> None:
        self.is_lost = False
        self.is_doubtful = False
        self.refusal = ""


_current: ContextVar[Delivery | None] = ContextVar("delivery", default=None)


@contextmanager
def delivery() -> Iterator[Delivery]:
    """Watch the requests that are made meanwhile, also by tasks that are made meanwhile."""
    watched = Delivery()
    token = _current.set(watched)
    try:
        yield watched
    finally:
        _current.reset(token)


class WatchedClient(httpx2.AsyncClient):
    """An HTTP client that tells the delivery of its context what comes of each request."""

    def __init__(self, *, headers: dict[str, str], timeout: httpx2.Timeout) -> None:
        super().__init__(
            headers=headers, timeout=timeout, event_hooks={"request": [_before_request], "response": [_after_response]}
        )


async def _before_request(_: httpx2.Request) -> None:
    if (watched := _current.get()) is not None:
        watched.is_lost = True  # until there is a response


async def _after_response(response: httpx2.Response) -> None:
    watched = _current.get()
    if watched is None:
        return
    watched.is_lost = await _is_refusal(response)
    is_unauthorized = response.status_code in _UNAUTHORIZED
    is_failure = response.is_error and not is_unauthorized and not watched.is_lost
    watched.is_doubtful = is_failure and _SESSION in response.request.headers
    if is_unauthorized:
        refused = f"it answers {response.status_code} {response.reason_phrase}".rstrip()
        watched.refusal = f"{refused}: it wants other credentials than it gets in `headers`"
    elif response.is_success:
        watched.refusal = ""
    if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _WatchedStream(response.stream, watched)


async def _is_refusal(response: httpx2.Response) -> bool:
    """True when the server has not taken the request since it does not know the session, or was not reached."""
    if response.status_code in _UNREACHED:
        return True
    if response.status_code not in _UNKNOWN_SESSION or _SESSION not in response.request.headers:
        return False
    try:
        refused = codec.decode_json(await response.aread(), _Refusal)
        asked = codec.decode_json(response.request.content, _Identified)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return True
    return refused.id != asked.id or refused.error.code in _SESSION_CODES


class _WatchedStream(httpx2.AsyncByteStream):
    """The events that answer a request. The reader closes it at the answer, so that its end before that is a loss."""

    def __init__(self, inner: httpx2.AsyncByteStream, watched: Delivery) -> None:
        self._inner = inner
        self._watched = watched

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner:
                yield piece
        except Exception:
            self._watched.is_lost = True
            raise
        self._watched.is_lost = True

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Identified(msgspec.Struct):
    id: str | int | None = None


class _Code(msgspec.Struct):
    code: int


class _Refusal(_Identified, kw_only=True):
    error: _Code
