"""Joins the partial responses of a stream. Pure: no SDK, no clock, no socket."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm.model import LlmResponse

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_VALUES = ("stringValue", "numberValue", "boolValue")  # null is the absence of all


def with_error_code(response: LlmResponse) -> LlmResponse:
    """The response with an error code if it has no content to show for its finish reason, and without one if it has.

    Thoughts alone are no content when the service stopped for another reason than being done (STOP): a budget that went
    into thinking (MAX_TOKENS) is the usual case. An error code that is there already is kept with its message.
    """
    reason = response.finish_reason
    if response.content is not None and any(not part.thought for part in response.content.parts):
        return msgspec.structs.replace(response, error_code=None, error_message=None)
    if response.error_code is not None:
        return response
    if reason in (None, "STOP"):
        return msgspec.structs.replace(response, error_message=None)
    message = response.error_message or f"the model stopped without an answer ({reason})"
    return msgspec.structs.replace(response, error_code=reason, error_message=message)


class Aggregate:
    """Joins partial responses, in the order in which they came, to one whole response.

    Attributes:
        pieces: how many have come.
    """

    def __init__(self) -> None:
        self.pieces = 0
        self._parts: list[Part] = []
        self._text: list[str] = []
        self._thought: bool | None = None
        self._call: _GrowingCall | None = None
        self._role: str | None = None
        self._usage: Usage | None = None
        self._grounding: JsonObject = {}
        self._metadata: JsonObject = {}
        self._end = LlmResponse()

    def add(self, partial: LlmResponse) -> None:
        """Add the next partial response. The last usage counts, since each is the sum so far."""
        self.pieces += 1
        self._usage = partial.usage or self._usage
        self._grounding |= partial.grounding_metadata or {}
        self._metadata |= partial.custom_metadata or {}
        if partial.finish_reason is not None or partial.error_code is not None:
            self._end = partial
        if partial.content is not None:
            self._role = partial.content.role or self._role
            for part in partial.content.parts:
                self._add_part(part)

    def is_whole(self) -> bool:
        """True when a finish reason or an error has come; a stream that ends without one was cut off."""
        return self._end.finish_reason is not None or self._end.error_code is not None

    def response(self) -> LlmResponse:
        """The whole response. Its `error_code` is that of the last partial response."""
        self._close_text()
        self._close_call()
        whole = LlmResponse(
            content=Content(role=self._role or "model", parts=list(self._parts)) if self._parts else None,
            finish_reason=self._end.finish_reason,
            error_code=self._end.error_code,
            error_message=self._end.error_message,
            usage=self._usage,
            grounding_metadata=self._grounding or None,
            custom_metadata=self._metadata or None,
        )
        return with_error_code(whole)

    def _add_part(self, part: Part) -> None:
        if part.function_call is not None and (self._call is not None or _is_growing(part.function_call)):
            self._grow_call(part, part.function_call)
        elif part.thought_signature is None and part.text is not None and part.carries_only_text():
            self._add_text(part.text, part.thought)
        else:
            # Google forbids joining a signed part with another one: the signature would no longer fit.
            self._close_text()
            self._parts.append(part)

    def _add_text(self, text: str, thought: bool | None) -> None:
        if bool(thought) != bool(self._thought):
            self._close_text()
        self._thought = thought
        self._text.append(text)

    def _close_text(self) -> None:
        if text := "".join(self._text):
            self._parts.append(Part(text=text, thought=self._thought))
        self._text.clear()

    def _grow_call(self, part: Part, call: FunctionCall) -> None:
        self._close_text()
        if self._call is None:
            self._call = _GrowingCall()
        self._call.add(part, call)
        if not call.will_continue:
            self._close_call()

    def _close_call(self) -> None:
        if self._call is not None:
            self._parts.append(self._call.part())
            self._call = None


def _is_growing(call: FunctionCall) -> bool:
    return bool(call.will_continue) or call.partial_args is not None


class _GrowingCall:
    """A function call whose arguments are streamed (Vertex AI, `stream_function_call_arguments`)."""

    def __init__(self) -> None:
        self._first = FunctionCall()
        self._signature: bytes | None = None
        self._args: JsonObject = {}

    def add(self, part: Part, call: FunctionCall) -> None:
        """Add the next piece of the call. Only the first has the name; arguments come by their JSON paths."""
        if not self._first.name:
            self._first = call
        self._signature = self._signature or part.thought_signature
        self._args |= call.args
        for piece in call.partial_args or ():
            if steps := list(_steps(str(piece.get("jsonPath", "")))):
                self._args = _with_value(self._args, steps, _value(piece))

    def part(self) -> Part:
        """The whole call."""
        call = msgspec.structs.replace(self._first, args=self._args, partial_args=None, will_continue=None)
        return Part(function_call=call, thought_signature=self._signature)


def _steps(json_path: str) -> Iterator[str | int]:
    """The keys and indices of a path such as `$.places[0].name`."""
    for name, index, quoted in _STEP.findall(json_path.removeprefix("$")):
        yield int(index) if index else (name or quoted)


def _value(piece: JsonObject) -> JsonValue:
    return next((piece[key] for key in _VALUES if key in piece), None)


def _with_value(at: JsonValue, steps: list[str | int], value: JsonValue) -> JsonValue:
    """A copy of `at` with the value at the end of the steps. Missing lists and objects are added; a string is continued."""
    if not steps:
        return at + value if isinstance(at, str) and isinstance(value, str) else value
    step, *rest = steps
    if isinstance(step, int):
        items = list(at or ())
        items.extend([None] * (step + 1 - len(items)))
        items[step] = _with_value(items[step], rest, value)
        return items
    fields = dict(at or {})
    fields[step] = _with_value(fields.get(step), rest, value)
    return fields
