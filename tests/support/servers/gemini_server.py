"""A Gemini service for tests: the REST protocol over a real socket on 127.0.0.1, answering from a script.

The server runs in a thread of its own with its own event loop. Anything that knows its `url` can use it, from any process.

    with GeminiServer([text("hello"), Failure(503), Stream([...])]) as server:
        model = Gemini(model="gemini-2.5-flash", api_key="k", base_url=server.url)
        ...
        assert server.requests[0].body["contents"] == [...]

The script is a sequence of replies, taken in order of arrival, or a function from a request to its reply. A plain dictionary
is a reply too: the body of a whole answer, sent as a stream of one chunk where a stream is asked for. Requests beyond the
script get status 400, which no client repeats.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

Json: TypeAlias = dict[str, Any]

_STREAM_HEAD = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", "Connection": "close"}


@dataclass(frozen=True)
class Request:
    """What a client sent. Header names are in lower case; `body` is the JSON object."""

    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Json

    @property
    def text(self) -> str:
        """The text of the newest content."""
        return "".join(part.get("text", "") for part in self.body["contents"][-1]["parts"])


class Gate:
    """Holds the chunks of one stream back until the test lets them go, from whichever thread it runs in."""

    def __init__(self, chunks: int = 64) -> None:
        self._turns: list[Future[None]] = [Future() for _ in range(chunks)]
        self._released = count()
        self._passed = count()

    def release(self, chunks: int = 1) -> None:
        """Let that many more chunks go."""
        for _ in range(chunks):
            self._turns[next(self._released)].set_result(None)

    async def passed(self) -> None:
        """Wait until the next chunk may go."""
        await asyncio.wrap_future(self._turns[next(self._passed)])


@dataclass(frozen=True)
class Failure:
    """An HTTP error, in Google's form."""

    status: int
    message: str = "scripted failure"
    headers: dict[str, str] = field(default_factory=dict)
    details: Sequence[Json] = ()


@dataclass(frozen=True)
class Stream:
    """An answer in chunks. With a gate, each chunk waits for its release; `cut_off` ends the connection without an end."""

    chunks: Sequence[Json]
    gate: Gate | None = None
    cut_off: bool = False


@dataclass(frozen=True)
class Raw:
    """Any bytes as the body of an answer of status 200."""

    body: bytes
    content_type: str = "text/html"


@dataclass(frozen=True)
class HangUp:
    """The connection is closed and nothing said."""


@dataclass(frozen=True)
class Cut:
    """Some bytes, then the end of the connection: an orderly one (FIN), or a reset (RST)."""

    sent: bytes
    is_reset: bool = False


Reply: TypeAlias = Json | Failure | Stream | Raw | HangUp | Cut
Script: TypeAlias = Iterable[Reply] | Callable[[Request], Reply]


def answer(*parts: Json, finish_reason: str | None = "STOP", usage: Json | None = None, **candidate: Any) -> Json:
    """The body of an answer, or one chunk of it, with these parts. No finish reason: more is to come."""
    content: Json = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    reason: Json = {"finishReason": finish_reason} if finish_reason is not None else {}
    return {"candidates": [{**content, **reason, "index": 0, **candidate}], **({"usageMetadata": usage} if usage else {})}


def text(words: str, **more: Any) -> Json:
    """The body of an answer in words."""
    return answer({"text": words}, **more)


def call(name: str, args: Json, **more: Any) -> Json:
    """The body of an answer that calls one function."""
    return answer({"functionCall": {"name": name, "args": args}}, **more)


class GeminiServer:
    """A context manager that serves while it is entered. Subclasses speak other protocols."""

    end = b""
    """What ends a stream that is not cut off."""

    def streams(self, request: Request) -> bool:
        """True when a stream of chunks is asked for."""
        return request.path.endswith(":streamGenerateContent")

    def chunks_of(self, answer: Json) -> list[Json]:
        """The chunks in which a whole answer is streamed."""
        return [answer]

    def event(self, chunk: Json) -> bytes:
        """A chunk as a server-sent event."""
        return f"data: {json.dumps(chunk)}\r\n\r\n".encode()

    def error_body(self, failure: Failure) -> bytes:
        """The body of an HTTP error."""
        return _error_body(failure)

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.tokens_issued = 0
        self.abandoned: Future[None] = Future()
        """Done when a client has closed its connection in the middle of a stream."""
        self.url = ""
        self._script = script if callable(script) else _in_turn(script)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gemini-server", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=64 * 2**20), self._loop
        ).result()
        self.url = "http://{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for _ in range(2):  # the first time the last connection may be accepted, and not served yet
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            while (request := await _read_request(reader)) is not None and await self._reply(request, reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _reply(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection ends with it."""
        if request.path == "/token":
            self.tokens_issued += 1
            token = {"access_token": "token-of-the-test", "expires_in": 3600, "token_type": "Bearer"}
            _write(writer, 200, json.dumps(token).encode())
            return True
        self.requests.append(request)
        match self._script(request):
            case HangUp():
                return False
            case Cut(sent, is_reset):
                await _cut_off(writer, sent, is_reset=is_reset)
                return False
            case Failure() as failure:
                _write(writer, failure.status, self.error_body(failure), failure.headers)
            case Raw(body, content_type):
                _write(writer, 200, body, {"Content-Type": content_type})
            case Stream() as stream:
                await self._stream(stream, reader, writer)
                return False
            case body if self.streams(request):
                await self._stream(Stream(self.chunks_of(body)), reader, writer)
                return False
            case body:
                _write(writer, 200, json.dumps(body).encode())
        return True

    def sent_for(self, answer: Json, *, stream: bool) -> bytes:
        """Every byte of the HTTP response that brings an answer, to be cut somewhere."""
        if not stream:
            body = json.dumps(answer, ensure_ascii=False).encode()
            return _head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))}) + body
        events = b"".join(_in_http_chunk(self.event(chunk)) for chunk in self.chunks_of(answer))
        return _head(200, _STREAM_HEAD) + events + self._stream_end()

    def _stream_end(self) -> bytes:
        return (_in_http_chunk(self.end) if self.end else b"") + b"0\r\n\r\n"

    async def _stream(self, stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a stream, and watch meanwhile whether the client leaves. The connection is not used again."""
        sending = asyncio.ensure_future(self._write_stream(writer, stream))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.abandoned.set_result(None)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _write_stream(self, writer: asyncio.StreamWriter, stream: Stream) -> None:
        """Server-sent events in chunked transfer coding; without the last, empty chunk when the stream is cut off."""
        writer.write(_head(200, _STREAM_HEAD))
        for chunk in stream.chunks:
            if stream.gate is not None:
                await stream.gate.passed()
            writer.write(_in_http_chunk(self.event(chunk)))
            await writer.drain()
        if not stream.cut_off:
            writer.write(self._stream_end())


async def _cut_off(writer: asyncio.StreamWriter, sent: bytes, *, is_reset: bool) -> None:
    """Send these bytes, and end the connection."""
    writer.write(sent)
    await writer.drain()
    if is_reset:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


def _in_turn(script: Iterable[Reply]) -> Callable[[Request], Reply]:
    replies = iter(list(script))
    return lambda request: next(replies, Failure(400, "the script has no more replies"))


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request on the connection; None when the client has closed it."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    target = urlsplit(first.split(" ")[1])
    is_json = headers.get("content-type", "").startswith("application/json")
    return Request(target.path, parse_qs(target.query), headers, json.loads(raw) if is_json else {})


def _error_body(failure: Failure) -> bytes:
    status = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    error: Json = {"code": failure.status, "message": failure.message, "status": status.get(failure.status, "INTERNAL")}
    return json.dumps({"error": {**error, "details": list(failure.details)}}).encode()


def _write(writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    writer.write(_head(status, head) + body)


def _in_http_chunk(sent: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(sent), sent)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
