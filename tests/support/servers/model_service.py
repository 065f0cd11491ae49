"""A service of language models that many ask at once: it speaks all three protocols, by a server of aiohttp in its own thread."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from aiohttp import web

from actors.interfaces.model import Model
from runtime.models.anthropic import AnthropicModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel

Json: TypeAlias = dict[str, Any]
Headers: TypeAlias = Mapping[str, str]
Refuse: TypeAlias = Callable[[int], "tuple[int, Headers] | None"]

BACKLOG = 20_000
"""Connections that wait to be accepted: a burst is not to be slowed down by them."""


def _gemini(url: str, **settings: Any) -> Model:
    return Gemini(model="gemini-of-the-test", base_url=url, **settings)


def _openai(url: str, **settings: Any) -> Model:
    return OpenAIModel("gpt-of-the-test", base_url=f"{url}/v1", **settings)


def _anthropic(url: str, **settings: Any) -> Model:
    return AnthropicModel("claude-of-the-test", base_url=url, **settings)


MODELS: Mapping[str, Callable[..., Model]] = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}
"""Makes a model of each SDK for the service at a URL."""


class ModelService:
    """A context manager that serves while it is entered. The answer is always the same.

    Args:
        together: answers wait until so many calls are under way at once, for the first time.
        pieces: of each answer that is streamed.
        refuse: takes the number of a call, from 1, and gives the status and headers with which it fails; None: it succeeds.
        tls: of a server that speaks HTTPS.

    Attributes:
        url: without a path.
        calls: how many have come.
        begun_s: when each has come, by the time of its event loop.
        most: how many were under way at once.
        connections: how many were made.
        headers: those of the last call.
        path: what the last call asked for, as it stood in its first line.
    """

    def __init__(
        self,
        *,
        together: int = 1,
        pieces: int = 16,
        refuse: Refuse = lambda _: None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url = ""
        self.calls = self.most = 0
        self.begun_s: list[float] = []
        self.headers: Mapping[str, str] = {}
        self.path = ""
        self._together = together
        self._pieces = pieces
        self._refuse = refuse
        self._tls = tls
        self._under_way = 0
        self._are_together = asyncio.Event()
        self._connections: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-service", daemon=True)

    @property
    def connections(self) -> int:
        """How many were made."""
        return len(self._connections)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> str:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=3_600, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=BACKLOG, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    async def _stop(self) -> None:
        for connection in self._connections:
            # One with TLS waits for its client otherwise, whose event loop stands still meanwhile.
            connection.abort()
        await self._runner.cleanup()
        await asyncio.sleep(0)  # sockets are closed by callbacks

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.calls += 1
        self.begun_s.append(self._loop.time())
        self.headers, self.path = request.headers, request.raw_path
        assert request.transport is not None
        self._connections.add(request.transport)
        number = self.calls
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        if self._under_way >= self._together:
            self._are_together.set()
        try:
            await self._are_together.wait()
            if (refused := self._refuse(number)) is not None:
                return web.json_response({"error": {"message": "refused"}}, status=refused[0], headers=refused[1])
        finally:
            self._under_way -= 1
        if request.path.endswith("/chat/completions"):
            return await _answer(request, _chat(self._pieces), is_streamed=bool(body.get("stream")))
        if request.path.endswith("/messages"):
            return await _answer(request, _message(self._pieces), is_streamed=True)
        return await _answer(request, _gemini_answer(self._pieces), is_streamed="streamGenerateContent" in request.path)


async def _answer(request: web.Request, pieces: Sequence[bytes], *, is_streamed: bool) -> web.StreamResponse:
    whole, *events = pieces
    if not is_streamed:
        return web.Response(body=whole, content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(event)
    return response


def _event(data: Json, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: %s\n\n" % json.dumps(data).encode()


def _chat(pieces: int) -> list[bytes]:
    head: Json = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 5, "completion_tokens": pieces, "total_tokens": 5 + pieces}
    message = {"role": "assistant", "content": "word " * pieces}
    whole = {**head, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    head["object"] = "chat.completion.chunk"
    chunk = {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "word "}, "finish_reason": None}]}
    last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
    return [json.dumps(whole).encode(), *[_event(chunk)] * pieces, _event(last), b"data: [DONE]\n\n"]


def _message(pieces: int) -> list[bytes]:
    head: Json = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    events: list[Json] = [
        {"type": "message_start", "message": {**head, "usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}] * pieces,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": pieces}},
        {"type": "message_stop"},
    ]
    return [b"", *(_event(event, event["type"]) for event in events)]


def _gemini_answer(pieces: int) -> list[bytes]:
    def said(text: str, reason: str | None) -> Json:
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 5, "candidatesTokenCount": pieces, "totalTokenCount": 5 + pieces}
        return {"candidates": [{"content": content, "index": 0, "finishReason": reason}], "usageMetadata": usage}

    events = [_event(said("word ", None))] * (pieces - 1)
    return [json.dumps(said("word " * pieces, "STOP")).encode(), *events, _event(said("word ", "STOP"))]
