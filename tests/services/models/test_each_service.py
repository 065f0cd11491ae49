"""What each model class does with its service: see the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.models.anthropic import AnthropicModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from tests.support.models.service_conformance import ServiceConformance
from tests.support.servers.chat_server import ChatServer, MessagesServer, chat, chat_chunks, message, message_events, said, use
from tests.support.servers.gemini_server import GeminiServer, Json, Script, answer

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
