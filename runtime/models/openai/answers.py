"""Answers of Chat Completions, whole or in pieces, as model responses. Pure: no SDK, no socket.

Services differ in how they stream calls: by an index with the name first and the arguments in fragments, without an index, or
with the same index, and even the same id, for several whole calls. A new id begins a new call, and so does a name behind whole
arguments. In an answer that comes in one, each entry is a call.
"""

from __future__ import annotations

import msgspec

from actors.errors import ModelResponseError
from actors.messages import codec
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import LlmResponse
from actors.rules.checks.model_answer import MALFORMED, decoded_arguments

FINISH_REASONS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "function_call": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
"""Gemini's words for the reasons, so that one word means one thing in a log. Others stay, in capitals."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: JsonValue = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | list[JsonObject] | None = None
    reasoning_content: str | None = None
    reasoning: JsonValue = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: JsonValue = None


class _GrowingCall:
    """A call whose arguments come in fragments."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.fragments: list[str] = []
        self.args: JsonObject = {}

    def add(self, function: _Function) -> None:
        """Add the next fragment."""
        self.name = self.name or function.name or ""
        if isinstance(function.arguments, str):
            self.fragments.append(function.arguments)
        elif isinstance(function.arguments, dict):
            self.args |= function.arguments

    def is_followed_by(self, function: _Function) -> bool:
        """True when a fragment with a name begins another call: the arguments of this one are whole, or the name is another."""
        if not self.name or not function.name:
            return False
        return function.name != self.name or bool(self.args) or MALFORMED not in decoded_arguments("".join(self.fragments))

    def part(self, *, was_cut: bool) -> Part | None:
        """The whole call; None for one that the model had no tokens left to finish."""
        text = "".join(self.fragments)
        args = self.args
        if text.strip():
            written = decoded_arguments(text)
            if was_cut and MALFORMED in written:
                return None
            args = written if MALFORMED in written else args | written
        return Part(function_call=FunctionCall(id=self.id or None, name=self.name, args=args))


class OpenAIAnswers:
    """Takes in what a service sends in one call.

    Args:
        model: the model's name, for errors.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._calls: list[_GrowingCall] = []
        self._by_index: dict[int, _GrowingCall] = {}
        self._refusal: list[str] = []
        self._has_choice = False
        self._finish_reason: str | None = None
        self._usage: Usage | None = None

    def add(self, sent: object) -> LlmResponse | None:
        """Take in a chunk of a stream or a whole answer, as JSON. Returns what it says; None when it says nothing yet.

        Raises:
            ModelResponseError: it has another form, or says only that something failed.
        """
        try:
            answer = codec.convert(sent, _Answer)
        except msgspec.ValidationError as error:
            raise ModelResponseError(self._model, f"it is no chat completion: {error}") from error
        if answer.usage is not None:
            self._usage = _usage(answer.usage)
        if not answer.choices:
            if answer.error is not None:
                raise ModelResponseError(self._model, f"the service sent an error in its place: {answer.error!s:.300}")
            return None
        choice = answer.choices[0]
        self._has_choice = True
        self._finish_reason = choice.finish_reason or self._finish_reason
        message = choice.delta or choice.message or _Message()
        for call in message.tool_calls or ():
            self._add_call(call, is_whole=choice.delta is None)
        if message.refusal:
            self._refusal.append(message.refusal)
        parts = list(_said(message))
        return LlmResponse(content=Content(role="model", parts=parts)) if parts else None

    def _add_call(self, fragment: _ToolCall, *, is_whole: bool) -> None:
        function = fragment.function or _Function()
        index = fragment.index if fragment.index is not None else max(len(self._calls) - (not fragment.id), 0)
        call = None if is_whole else self._by_index.get(index)
        if call is None or (fragment.id and call.id and fragment.id != call.id) or call.is_followed_by(function):
            call = self._by_index[index] = _GrowingCall(fragment.id or "")
            self._calls.append(call)
        call.id = call.id or fragment.id or ""
        call.add(function)

    def end_answer(self, *, is_whole: bool = False) -> LlmResponse | None:
        """The calls, with finish reason and usage, when the service has sent everything; None when a stream had no end.

        Args:
            is_whole: the answer came in one, so that it is complete without a finish reason as well.
        """
        if self._finish_reason is None and not (is_whole and self._has_choice):
            return None
        reason = FINISH_REASONS.get(self._finish_reason or "stop", (self._finish_reason or "").upper())
        was_cut = reason == "MAX_TOKENS"
        parts = [part for call in self._calls if (part := call.part(was_cut=was_cut)) is not None]
        refusal = "".join(self._refusal)
        return LlmResponse(
            content=Content(role="model", parts=parts) if parts else None,
            finish_reason=reason,
            error_code="REFUSAL" if refusal else None,
            error_message=refusal or None,
            usage=self._usage,
        )


def _said(message: _Message) -> list[Part]:
    """The thoughts and texts of a message. Some services send a list of typed parts in place of a text."""
    parts: list[Part] = []
    thought = message.reasoning_content or (message.reasoning if isinstance(message.reasoning, str) else None)
    if thought:
        parts.append(Part(text=thought, thought=True))
    if isinstance(message.content, str):
        if message.content:
            parts.append(Part(text=message.content))
        return parts
    for piece in message.content or ():
        if piece.get("type") == "text" and piece.get("text"):
            parts.append(Part(text=str(piece["text"])))
        elif piece.get("type") == "thinking":
            inner = piece.get("thinking")
            texts = [inner] if isinstance(inner, str) else [str(each.get("text") or "") for each in inner or ()]
            parts += [Part(text=text, thought=True) for text in texts if text]
    return parts


def _usage(usage: _Usage) -> Usage:
    """The usage by Gemini's names. Thinking counts as part of the completion with most services, and besides it with some."""
    thoughts = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details is not None else None
    completion = usage.completion_tokens
    includes_thoughts = usage.total_tokens == (usage.prompt_tokens or 0) + (completion or 0)
    if completion is not None and thoughts and includes_thoughts:
        completion = max(completion - thoughts, 0)
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details is not None else None
    return Usage(
        prompt_token_count=usage.prompt_tokens,
        candidates_token_count=completion,
        thoughts_token_count=thoughts or None,
        cached_content_token_count=cached or None,
        total_token_count=usage.total_tokens,
    )
