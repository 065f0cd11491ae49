"""What every model class does when its service's answer is cut off. Inherit the class and say how the service speaks.

The HTTP response is cut at every byte, head included, by an orderly end of the connection and by a reset; without `-m soak` at
every seventh byte and after each line. What comes is the whole
answer, the whole answer of another call, or, after something was shown, an error: never half an answer, and none of two calls.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.errors import ModelError
from actors.interfaces.model import Model
from actors.messages.content import Content
from actors.messages.llm.model import LlmRequest, LlmResponse
from runtime.models.fallback import FallbackModel
from runtime.models.service import ServiceModel
from tests.support.servers.gemini_server import Cut, GeminiServer, Json, Reply, Request, Script

WORDS = "Do not take this medicine with milk: é."
CALLS = [("pay", {"to": "Ada"}), ("refund", {"to": "Bob"})]
OTHER = "It was asked again."

_AT_ONCE = 16


class CutAnswersConformance(ABC):
    """The tests. A subclass makes a service, a model of it, and answers as the service speaks them."""

    always_streams = False
    """The service is asked for a stream also where none is shown."""

    @abstractmethod
    def service(self, script: Script) -> GeminiServer:
        """The service, not yet entered; `script` maps a request to its reply."""

    @abstractmethod
    def model(self, server: GeminiServer, name: str, *, retries: int) -> ServiceModel[Any]:
        """A model of the service, which waits no time before it asks again."""

    @abstractmethod
    def answer(self, words: str, calls: Sequence[tuple[str, Json]] = ()) -> Json:
        """A whole answer."""

    @pytest.mark.sampled(9)
    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("calls", [(), CALLS], ids=["text", "text and two calls"])
    @pytest.mark.parametrize("is_reset", [False, True], ids=["FIN", "RST"])
    @pytest.mark.parametrize("every", [pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(300)]), 7])
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
