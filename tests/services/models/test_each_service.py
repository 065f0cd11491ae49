"""What each model class does with its service. A subclass of the conformance suite says how the service speaks.

An HTTP response is cut at every byte, head included, by an orderly end of the connection and by a reset; without `-m soak` at
every seventh byte and after each line. What comes is the whole answer, the whole answer of another call, or, after something was
shown, an error: never half an answer, and none of two calls.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from actors.errors import ModelError, ModelServiceError
from actors.interfaces.model import Model
from actors.messages.content import Content
from actors.messages.llm import LlmRequest, LlmResponse
from runtime.models.anthropic import AnthropicModel
from runtime.models.fallback import FallbackModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from runtime.models.service import ServiceModel
from tests.support.models.model_calls import HELLO, streamed, whole
from tests.support.servers.chat_server import ChatServer, MessagesServer, chat, chat_chunks, message, message_events, said, use
from tests.support.servers.gemini_server import (
    Cut,
    Failure,
    Gate,
    GeminiServer,
    HangUp,
    Json,
    Reply,
    Request,
    Script,
    Stream,
    answer,
)

WORDS = "Do not take this medicine with milk: é."
CALLS = [("pay", {"to": "Ada"}), ("refund", {"to": "Bob"})]
OTHER = "It was asked again."

_AT_ONCE = 16


class ServiceConformance(ABC):
    """The tests. A subclass makes a service, a model of it, and answers as the service speaks them."""

    always_streams = False
    """The service is asked for a stream also where none is shown."""

    @abstractmethod
    def service(self, script: Script) -> GeminiServer:
        """The service, not yet entered; `script` maps a request to its reply."""

    @abstractmethod
    def model(self, server: GeminiServer, name: str, **settings: Any) -> ServiceModel[Any]:
        """A model of the service, which waits no time before it asks again."""

    @abstractmethod
    def answer(self, words: str, calls: Sequence[tuple[str, Json]] = ()) -> Json:
        """A whole answer."""

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_failure_that_may_pass_is_repeated_and_a_refusal_is_not(self, stream: bool) -> None:
        passing: list[Reply] = [*map(Failure, (429, 500, 502, 503, 504)), HangUp()]
        async with self._asked(*passing, self.answer(WORDS), Failure(400, "no such"), retries=len(passing)) as (model, server):
            *_, last = [response async for response in model.generate(HELLO, stream=stream)]
            assert last.content is not None
            assert last.content.text == WORDS
            assert server.requests[0].body == server.requests[-1].body
            with pytest.raises(ModelServiceError, match="no such") as caught:
                await whole(model)
            assert (caught.value.code, len(server.requests)) == (400, len(passing) + 2)

    @pytest.mark.parametrize("status", [401, 403, 404])
    async def test_an_error_can_travel_and_takes_no_key_along(self, status: int) -> None:
        async with self._asked(Failure(status, "it is not allowed")) as (model, server):
            with pytest.raises(ModelServiceError, match="it is not allowed") as caught:
                await whole(model)
            raw = pickle.dumps(caught.value)
            assert str(pickle.loads(raw)) == str(caught.value)
            assert (caught.value.code, len(server.requests)) == (status, 1)
            assert b"key-of-the-test" not in raw

    async def test_a_service_that_is_silent_for_too_long_counts_as_lost(self) -> None:
        async with self._asked(Stream(self._chunks(), Gate()), timeout_s=0.05) as (model, _):
            with pytest.raises(ModelServiceError) as caught:
                await streamed(model)
            assert caught.value.code is None

    async def test_a_service_that_is_not_there_is_named(self) -> None:
        with self.service([]) as gone:
            model = self.model(gone, "model-of-the-test", retries=1)
        with pytest.raises(ModelServiceError, match="could not be reached") as caught:
            await whole(model)
        assert caught.value.code is None
        await model.aclose()

    async def test_a_reader_that_leaves_early_frees_the_connection(self) -> None:
        chunks, gate = self._chunks(), Gate()
        gate.release(len(chunks) - 1)
        async with self._asked(Stream(chunks, gate)) as (model, server):
            async with aclosing(model.generate(HELLO, stream=True)) as responses:
                assert (await anext(responses)).partial
            await asyncio.wrap_future(server.abandoned)

    def _chunks(self) -> list[Json]:
        """An answer as it is streamed."""
        with self.service([]) as server:
            return server.chunks_of(self.answer(WORDS, CALLS))

    @asynccontextmanager
    async def _asked(self, *replies: Reply, **settings: Any) -> AsyncIterator[tuple[ServiceModel[Any], GeminiServer]]:
        """A model, and its service that gives these replies."""
        with self.service(replies) as server:
            model = self.model(server, "model-of-the-test", **{"retries": 0, **settings})
            try:
                yield model, server
            finally:
                await model.aclose()

    @pytest.mark.sampled(5)
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("calls", [(), CALLS], ids=["text", "text and two calls"])
    @pytest.mark.parametrize("is_reset", [False, True], ids=["FIN", "RST"])
    @pytest.mark.parametrize("every", [7, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(300)])])
    async def test_an_answer_that_is_cut_at_any_byte_is_asked_for_again_unless_a_part_was_shown(
        self, stream: bool, calls: Sequence[tuple[str, Json]], is_reset: bool, every: int
    ) -> None:
        async with self._cutting(calls, stream, is_reset) as (server, sent):
            model = self.model(server, "model-of-the-test", retries=1)
            await _check(model, calls, stream, _cuts(sent, every))
            await model.aclose()

    @pytest.mark.sampled(6, of="module")
    @pytest.mark.parametrize("stream", [False, True])
    async def test_the_next_model_is_asked_when_an_answer_is_cut_unless_a_part_was_shown(self, stream: bool) -> None:
        async with self._cutting(CALLS, stream, is_reset=False) as (server, sent):
            models = [self.model(server, name, retries=0) for name in ("first", "second")]
            await _check(FallbackModel(models), CALLS, stream, _cuts(sent, 7))
            for model in models:
                await model.aclose()

    @asynccontextmanager
    async def _cutting(
        self, calls: Sequence[tuple[str, Json]], stream: bool, is_reset: bool
    ) -> AsyncIterator[tuple[GeminiServer, bytes]]:
        """The service, which cuts its first answer to "cut 7" after 7 bytes, and all bytes of that answer."""
        asked: set[int] = set()

        def reply(request: Request) -> Reply:
            [found] = re.findall(r"cut (\d+)", json.dumps(request.body))
            cut = int(found)
            if cut in asked:
                return self.answer(OTHER)
            asked.add(cut)
            return Cut(sent[:cut], is_reset)

        server = self.service(reply)
        sent = server.sent_for(self.answer(WORDS, calls), stream=stream or self.always_streams)
        with server:
            yield server, sent


def _cuts(sent: bytes, every: int) -> list[int]:
    """Where an answer is cut: after some of its bytes, after each line, and not at all."""
    return [*(cut for cut in range(len(sent)) if cut % every == 0 or sent[:cut].endswith(b"\n")), len(sent)]


async def _check(model: Model, calls: Sequence[tuple[str, Json]], stream: bool, cuts: Sequence[int]) -> None:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def outcome(cut: int) -> str:
        async with limit:
            return await _outcome(model, cut, stream)

    outcomes = await asyncio.gather(*map(outcome, cuts))
    allowed = {_told(WORDS, calls), _told(OTHER, ())} | ({"shown, then an error"} if stream else set())
    assert set(outcomes) <= allowed, [(cut, said) for cut, said in zip(cuts, outcomes, strict=True) if said not in allowed]
    assert outcomes[0] == _told(OTHER, ())
    assert outcomes[-1] == _told(WORDS, calls)
    assert not stream or "shown, then an error" in outcomes


async def _outcome(model: Model, cut: int, stream: bool) -> str:
    request = LlmRequest(contents=[Content.of_text(f"cut {cut}")])
    shown: list[LlmResponse] = []
    try:
        async for response in model.generate(request, stream=stream):
            shown.append(response)
    except ModelError as error:
        return "shown, then an error" if shown else f"an error, though nothing was shown: {error!r}"
    content = shown[-1].content
    assert content is not None
    return _told(content.text, [(call.name, call.args) for call in content.function_calls()])


def _told(words: str, calls: Sequence[tuple[str, Json]]) -> str:
    return json.dumps([words, [list(call) for call in calls]])


SETTINGS: dict[str, Any] = {"api_key": "key-of-the-test", "retry_initial_delay_s": 0.0}


class BriefChat(ChatServer):
    """Sends as few bytes as the protocol allows, in large pieces."""

    def chunks_of(self, answer: Json) -> list[Json]:
        return [{"choices": chunk["choices"]} for chunk in chat_chunks(answer, 24)]


class BriefMessages(MessagesServer):
    def chunks_of(self, answer: Json) -> list[Json]:
        return [event for event in message_events(answer, 24) if event["type"] != "ping"]


class GeminiInChunks(GeminiServer):
    def chunks_of(self, answer: Json) -> list[Json]:
        [candidate] = answer["candidates"]
        *first, last = [{"content": {"role": "model", "parts": [part]}} for part in candidate["content"]["parts"]]
        return [{"candidates": [chunk]} for chunk in [*first, {**candidate, **last}]]


class TestOpenAI(ServiceConformance):
    def service(self, script: Script) -> GeminiServer:
        return BriefChat(script)

    def model(self, server: GeminiServer, name: str, **settings: Any) -> OpenAIModel:
        return OpenAIModel(name, base_url=f"{server.url}/v1", **SETTINGS, **settings)

    def answer(self, words: str, calls: Sequence[tuple[str, Json]] = ()) -> Json:
        return chat(words, *calls)


class TestAnthropic(ServiceConformance):
    always_streams = True

    def service(self, script: Script) -> GeminiServer:
        return BriefMessages(script)

    def model(self, server: GeminiServer, name: str, **settings: Any) -> AnthropicModel:
        return AnthropicModel(name, base_url=server.url, **SETTINGS, **settings)

    def answer(self, words: str, calls: Sequence[tuple[str, Json]] = ()) -> Json:
        return message(said(words), *(use(name, args, f"toolu_{name}") for name, args in calls))


class TestGemini(ServiceConformance):
    def service(self, script: Script) -> GeminiServer:
        return GeminiInChunks(script)

    def model(self, server: GeminiServer, name: str, **settings: Any) -> Gemini:
        return Gemini(model=name, base_url=server.url, **SETTINGS, **settings)

    def answer(self, words: str, calls: Sequence[tuple[str, Json]] = ()) -> Json:
        return answer({"text": words[:9]}, {"text": words[9:]}, *({"functionCall": {"name": n, "args": a}} for n, a in calls))
