"""Each kind of model behind one interface: what a service says, and what it was asked, in words that all of them share.

A vendor is strict: it refuses, with status 400, a request that the real service refuses.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

from actors import Content, FunctionCall, LlmRequest, LlmResponse, Part
from actors.interfaces.model import Model
from actors.messages.codec import encode
from runtime.models.anthropic import AnthropicModel
from runtime.models.gemini import Gemini
from runtime.models.openai import OpenAIModel
from tests.support.servers.chat_server import (
    ChatServer,
    MessagesServer,
    chat,
    chat_chunks,
    message,
    message_events,
    pieces,
    said,
    thought,
    use,
)
from tests.support.servers.gemini_server import Failure, GeminiServer, Json, Reply, Request, answer

SETTINGS: dict[str, Any] = {"api_key": "key-of-the-test", "retry_initial_delay_s": 0.0}

GEMINI_SIGNATURE = "c2lnbmVk"
GEMINI_DUMMY = "skip_thought_signature_validator"
ANTHROPIC_SIGNATURE = "EqQBCg+/=="


class Thought(NamedTuple):
    """Something that a model thinks."""

    text: str


class Call(NamedTuple):
    """A call that a model makes; `args` as a text are sent as they are, where a service writes them as a text."""

    name: str
    args: Json | str = {}  # noqa: RUF012
    id: str | None = "call-of-the-service"


Said: TypeAlias = str | Thought | Call

Heard: TypeAlias = tuple[str, str] | tuple[str, str, Json]
"""("user", text), ("model", text), ("call", name) or ("answer", name, response)."""


class Answer(NamedTuple):
    """What a service says to one request, and why it stops."""

    said: Sequence[Said]
    reason: str = "STOP"


class Service(AbstractContextManager["Service"], ABC):
    """A service that gives some answers in order, and keeps what it was asked."""

    name: str

    @abstractmethod
    def model(self) -> Model:
        """A model of this service."""

    @abstractmethod
    def heard(self) -> list[list[Heard]]:
        """The conversation in each request."""


class _HttpService(Service):
    server_class: type[GeminiServer]
    user = ""
    """What stands before the host in the URL that its models are given, such as `ada:password@`."""

    @property
    def url(self) -> str:
        return self.server.url.replace("//", f"//{self.user}")

    def __init__(self, *answers: Answer | Reply) -> None:
        replies = iter([self.reply(each) if isinstance(each, Answer) else each for each in answers])

        def script(request: Request) -> Reply:
            flaw = self.flaw(request.body)
            return Failure(400, flaw) if flaw else next(replies, Failure(400, "the script has no more replies"))

        self.server = self.server_class(script)

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.__exit__(*error)

    def heard(self) -> list[list[Heard]]:
        return [[heard for content in self.contents(request.body) for heard in content] for request in self.server.requests]

    def flaw(self, body: Json) -> str:
        """Why the service refuses a request; "" if it does not."""
        return flaw_of(self.contents(body))

    @abstractmethod
    def reply(self, given: Answer) -> Json:
        """An answer as the service writes it."""

    @abstractmethod
    def contents(self, body: Json) -> list[list[Heard]]:
        """The conversation in a request, by contents, turns or messages."""


def flaw_of(contents: Sequence[Sequence[Heard]]) -> str:
    """Why no service takes a conversation; "" if all do: each call is answered, once, right behind the content that makes it."""
    for content, after in zip(contents, [*contents[1:], []], strict=True):
        calls = [heard[1] for heard in content if heard[0] == "call"]
        answers = [heard[1] for heard in after if heard[0] == "answer"]
        if calls != answers:
            return f"the calls {calls} are followed by answers to {answers}"
    return ""


class GeminiService(_HttpService):
    """Gemini 3, which wants each step of the newest turn to be signed."""

    name = "gemini-3-of-the-test"

    class server_class(GeminiServer):
        def chunks_of(self, answer: Json) -> list[Json]:
            [candidate] = answer["candidates"]
            parts = (candidate.get("content") or {}).get("parts") or []
            found = [
                {**part, "text": piece} if "text" in part else part
                for part in parts
                for piece in (pieces(part["text"], 3) if "text" in part else [""])
            ]
            chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in found]
            end = {key: value for key, value in candidate.items() if key != "content"}
            return [*chunks, {"candidates": [end]}]

    def model(self) -> Gemini:
        return Gemini(model=self.name, base_url=self.url, retries=0, **SETTINGS)

    def reply(self, given: Answer) -> Json:
        parts: list[Json] = []
        for each in given.said:
            match each:
                case Call(name, args, call_id):
                    is_first = not any("functionCall" in part for part in parts)
                    signed = {"thoughtSignature": GEMINI_SIGNATURE} if is_first else {}
                    named = {"id": call_id} if call_id else {}
                    parts.append({"functionCall": {**named, "name": name, "args": args}, **signed})
                case Thought(text):
                    parts.append({"text": text, "thought": True})
                case text:
                    parts.append({"text": text})
        return answer(*parts, finish_reason=given.reason)

    def contents(self, body: Json) -> list[list[Heard]]:
        return [[_gemini_part(content, part) for part in content["parts"]] for content in body["contents"]]

    def flaw(self, body: Json) -> str:
        contents = body["contents"]
        said = [n for n, each in enumerate(contents) if each["role"] == "user" and "functionResponse" not in each["parts"][0]]
        for content in contents[said[-1] :]:
            calls = [part for part in content["parts"] if "functionCall" in part]
            if calls and calls[0].get("thoughtSignature") not in (GEMINI_SIGNATURE, GEMINI_DUMMY):
                return f"the call {calls[0]} has no signature, or a wrong one"
        return super().flaw(body)


def _gemini_part(content: Json, part: Json) -> Heard:
    if "functionCall" in part:
        return "call", part["functionCall"]["name"]
    if "functionResponse" in part:
        return "answer", part["functionResponse"]["name"], part["functionResponse"]["response"]
    return content["role"], part["text"]


class OpenAIService(_HttpService):
    """A service that speaks Chat Completions."""

    name = "gpt-of-the-test"
    server_class = ChatServer
    reasons = {"STOP": None, "MAX_TOKENS": "length", "SAFETY": "content_filter"}  # noqa: RUF012

    def model(self) -> OpenAIModel:
        return OpenAIModel(self.name, base_url=f"{self.url}/v1", retries=0, **SETTINGS)

    def reply(self, given: Answer) -> Json:
        text = "".join(each for each in given.said if isinstance(each, str))
        thoughts = "".join(each.text for each in given.said if isinstance(each, Thought))
        calls = [each for each in given.said if isinstance(each, Call)]
        reason = self.reasons.get(given.reason, given.reason.lower())
        made = chat(text or None, finish_reason=reason, reasoning_content=thoughts or None)
        if calls:
            [choice] = made["choices"]
            choice["finish_reason"] = reason or "tool_calls"
            choice["message"]["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _written(call.args)}}
                for call in calls
            ]
        return made

    def contents(self, body: Json) -> list[list[Heard]]:
        found: list[list[Heard]] = []
        names: dict[str, str] = {}
        for each in body["messages"]:
            if each["role"] == "tool":
                heard: Heard = ("answer", names[each["tool_call_id"]], json.loads(each["content"]))
                # The answers to the calls of one message stand in messages of their own.
                if found[-1][0][0] == "answer":
                    found[-1].append(heard)
                else:
                    found.append([heard])
                continue
            spoken: list[Heard] = (
                [("model" if each["role"] == "assistant" else "user", each["content"])] if each["content"] else []
            )
            for call in each.get("tool_calls") or ():
                assert call["id"] not in names, "two calls have the same id"
                names[call["id"]] = call["function"]["name"]
                spoken.append(("call", call["function"]["name"]))
            if each["role"] != "system":
                found.append(spoken)
        return found


class SameIndex(OpenAIService):
    """Streams each call whole, all with the index 0."""

    class server_class(ChatServer):
        def chunks_of(self, answer: Json) -> list[Json]:
            chunks = chat_chunks(answer)
            [choice] = answer["choices"]
            calls = [{**call, "index": 0} for call in choice["message"].get("tool_calls") or ()]
            kept = [chunk for chunk in chunks if "tool_calls" not in chunk["choices"][0]["delta"]]
            made = [{**chunks[0], "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
            return [*kept[:-1], *made, kept[-1]]


class AnthropicService(_HttpService):
    """A service that speaks Messages."""

    name = "claude-of-the-test"
    reasons = {"STOP": None, "MAX_TOKENS": "max_tokens", "SAFETY": "refusal"}  # noqa: RUF012

    class server_class(MessagesServer):
        def chunks_of(self, answer: Json) -> list[Json]:
            return message_events(answer)

    def model(self) -> AnthropicModel:
        return AnthropicModel(self.name, base_url=self.url, retries=0, **SETTINGS)

    def reply(self, given: Answer) -> Json:
        blocks: list[Json] = []
        for each in given.said:
            match each:
                case Call(name, args, call_id):
                    blocks.append({**use(name, {}, call_id or ""), "input": args})
                case Thought(text):
                    blocks.append(thought(text, ANTHROPIC_SIGNATURE))
                case text:
                    blocks.append(said(text))
        return message(*blocks, stop_reason=self.reasons.get(given.reason, given.reason.lower()))

    def contents(self, body: Json) -> list[list[Heard]]:
        names: dict[str, str] = {}
        found: list[list[Heard]] = []
        for each in body["messages"]:
            heard: list[Heard] = []
            for block in each["content"]:
                match block:
                    case {"type": "tool_use", "id": call_id, "name": name}:
                        assert call_id not in names, "two calls have the same id"
                        names[call_id] = name
                        heard.append(("call", name))
                    case {"type": "tool_result", "tool_use_id": call_id, "content": written}:
                        heard.append(("answer", names[call_id], json.loads(written)))
                    case {"type": "text", "text": text}:
                        heard.append(("model" if each["role"] == "assistant" else "user", text))
                    case {"type": "thinking", "signature": signature}:
                        assert signature == ANTHROPIC_SIGNATURE
            found.append(heard)
        return found


@dataclass
class OwnService(Service):
    """A model of a user's own, which asks no service at all."""

    answers: Iterator[Answer | Reply]
    requests: list[list[list[Heard]]] = field(default_factory=list)
    name = "own-of-the-test"

    def __init__(self, *answers: Answer | Reply) -> None:
        self.answers, self.requests = iter(answers), []

    def __exit__(self, *error: Any) -> None:
        pass

    def model(self) -> Model:
        return _OwnModel(self)

    def heard(self) -> list[list[Heard]]:
        return [[heard for content in request for heard in content] for request in self.requests]


class _OwnModel:
    def __init__(self, service: OwnService) -> None:
        self.name = service.name
        self._service = service

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        encode(request.contents)
        contents: list[list[Heard]] = [[_own_part(content, part) for part in content.parts] for content in request.contents]
        self._service.requests.append(contents)
        if flaw := flaw_of(contents):
            raise ValueError(flaw)
        given = next(self._service.answers)
        if isinstance(given, Failure):
            raise ConnectionError(given.message)
        assert isinstance(given, Answer)
        if stream:
            for each in given.said:
                for piece in pieces(each, 3) if isinstance(each, str) else []:
                    yield LlmResponse(content=Content.of_text(piece, "model"), partial=True)
        parts = [_own_said(each) for each in given.said]
        yield LlmResponse(
            content=Content(role="model", parts=parts) if parts else None,
            finish_reason=given.reason,
            error_code=(code := given.reason if not parts and given.reason != "STOP" else None),
            error_message=code and "it is broken",
        )


def _own_part(content: Content, part: Part) -> Heard:
    if part.function_call is not None:
        return "call", part.function_call.name
    if part.function_response is not None:
        return "answer", part.function_response.name, dict(part.function_response.response)
    return content.role or "", part.text or ""


def _own_said(each: Said) -> Part:
    match each:
        case Call(name, args, call_id):
            return Part(function_call=FunctionCall(id=call_id, name=name, args=args))  # type: ignore[arg-type]
        case Thought(text):
            return Part(text=text, thought=True)
        case text:
            return Part(text=text)


def _written(args: Json | str) -> str:
    return args if isinstance(args, str) else json.dumps(args)


MakeService: TypeAlias = Callable[..., Service]
