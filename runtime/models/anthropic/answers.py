"""Streams of Anthropic's Messages API as model responses. Pure: no SDK, no socket."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.errors import ModelResponseError
from actors.messages import codec
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject
from actors.messages.llm import LlmResponse
from actors.rules.checks.model_answer import MALFORMED, decoded_arguments
from runtime.models.wire import signed_by_anthropic

FINISH_REASONS = {
    "end_turn": "STOP",
    "stop_sequence": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "refusal": "SAFETY",
}
"""Gemini's words for the reasons, so that one word means one thing in a log. Others stay, in capitals."""


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: JsonObject = {}


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str = ""
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


class _OpenBlock:
    """A block whose end has not come: a call, or a thought with its signature."""

    def __init__(self, block: _Block) -> None:
        self.block = block
        self.json: list[str] = []
        self.signature = [block.signature]


class AnthropicAnswers:
    """Takes in the events of one stream.

    Args:
        model: the model's name, for errors.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._open: _OpenBlock | None = None
        self._broken: list[Part] = []
        self._counts: dict[str, int] = {}
        self._thinking_tokens: int | None = None
        self._handlers: dict[str, Callable[[_Event], Part | None]] = {
            "content_block_start": self._start,
            "content_block_delta": self._grow,
            "content_block_stop": self._stop,
        }

    def add(self, sent: object) -> LlmResponse | None:
        """Take in an event, as JSON. Returns what it says; None when it says nothing.

        Raises:
            ModelResponseError: it has another form.
        """
        try:
            event = codec.convert(sent, _Event)
        except msgspec.ValidationError as error:
            raise ModelResponseError(self._model, f"it is no event of a message: {error}") from error
        self._count(event.message.usage if event.message is not None else event.usage)
        handler = self._handlers.get(event.type)
        if handler is not None:
            part = handler(event)
            return None if part is None else LlmResponse(content=Content(role="model", parts=[part]))
        if event.type == "message_delta" and event.delta is not None and event.delta.stop_reason is not None:
            return self._end(event.delta.stop_reason)
        return None

    def _start(self, event: _Event) -> Part | None:
        block = event.content_block
        if block is None:
            return None
        self._open = _OpenBlock(block)
        if block.type == "redacted_thinking":
            return Part(thought=True, thought_signature=signed_by_anthropic(block.data, redacted=True))
        if block.type == "thinking" and block.thinking:
            return Part(text=block.thinking, thought=True)
        return Part(text=block.text) if block.type == "text" and block.text else None

    def _grow(self, event: _Event) -> Part | None:
        delta, opened = event.delta, self._open
        if delta is None or opened is None:
            return None
        if delta.type == "text_delta" and delta.text:
            return Part(text=delta.text)
        if delta.type == "thinking_delta" and delta.thinking:
            return Part(text=delta.thinking, thought=True)
        if delta.type == "signature_delta":
            opened.signature.append(delta.signature)
        elif delta.type == "input_json_delta":
            opened.json.append(delta.partial_json)
        return None

    def _stop(self, event: _Event) -> Part | None:
        """The signature of a thought, or a whole call. One with broken arguments waits for the reason why they are."""
        opened, self._open = self._open, None
        if opened is None:
            return None
        if opened.block.type == "thinking" and (signature := "".join(opened.signature)):
            return Part(thought=True, thought_signature=signed_by_anthropic(signature))
        if opened.block.type == "tool_use":
            return self._call(opened)
        return None

    def _call(self, opened: _OpenBlock) -> Part | None:
        text, args = "".join(opened.json), opened.block.input
        call = FunctionCall(id=opened.block.id or None, name=opened.block.name, args=args)
        if not text.strip():
            return Part(function_call=call)
        part = Part(function_call=msgspec.structs.replace(call, args=(args := decoded_arguments(text))))
        if MALFORMED not in args:
            return part
        self._broken.append(part)
        return None

    def _end(self, stop_reason: str) -> LlmResponse:
        """The end of the message, with calls that are broken. Without the last, if the model had no tokens left to finish it."""
        reason = FINISH_REASONS.get(stop_reason, stop_reason.upper())
        parts = self._broken[:-1] if reason == "MAX_TOKENS" else self._broken
        content = Content(role="model", parts=parts) if parts else None
        return LlmResponse(content=content, finish_reason=reason, usage=self._usage())

    def _count(self, usage: _Usage | None) -> None:
        """Keep the counts: each is the sum so far, and those that do not change come once."""
        if usage is None:
            return
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            if (count := getattr(usage, name)) is not None:
                self._counts[name] = count
        if usage.output_tokens_details is not None:
            self._thinking_tokens = usage.output_tokens_details.thinking_tokens

    def _usage(self) -> Usage | None:
        """The usage by Gemini's names: what was read from the cache or written to it is part of the prompt."""
        if not self._counts:
            return None
        cached = self._counts.get("cache_read_input_tokens", 0)
        prompt = self._counts.get("input_tokens", 0) + cached + self._counts.get("cache_creation_input_tokens", 0)
        output, thoughts = self._counts.get("output_tokens", 0), self._thinking_tokens or 0
        return Usage(
            prompt_token_count=prompt,
            candidates_token_count=max(output - thoughts, 0),
            thoughts_token_count=thoughts or None,
            cached_content_token_count=cached or None,
            total_token_count=prompt + output,
        )
