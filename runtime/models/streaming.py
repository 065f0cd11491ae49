"""The pieces of an answer, joined to a whole one. Pure: no SDK, no clock, no socket.

Rules of this file: an answer that was cut off is never taken for a whole one, and what a caller was shown is never begun again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from actors.errors import ModelError, ModelResponseError, ModelServiceError
from actors.layers.limiter.rate_limiter import RETRYABLE
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import Usage
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import LlmResponse
from runtime.models.failures import RetryPolicy, broken_off

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


_CUT_OFF = "the stream ended before the model did (no finish reason came)"


class Attempt:
    """Takes in the pieces of one attempt.

    Args:
        model: the model's name, for errors.
        is_shown: the caller is shown each piece as it comes.
        names_its_end: the last piece has a finish reason; without one the answer was cut off.
    """

    def __init__(self, model: str, *, is_shown: bool, names_its_end: bool) -> None:
        self._model = model
        self._is_shown = is_shown
        self._names_its_end = names_its_end
        self._has_shown = False
        self._answer = Aggregate()
        self._last = LlmResponse()

    def add(self, piece: LlmResponse) -> LlmResponse | None:
        """Take in the next piece. Returns what the caller is shown of it; None for nothing."""
        self._answer.add(piece)
        self._last = piece
        if not self._is_shown or piece.content is None:
            return None
        self._has_shown = True
        return msgspec.structs.replace(piece, partial=True, error_code=None, error_message=None)

    def check_end(self) -> None:
        """Check what has come, when nothing more comes.

        Raises:
            ModelServiceError: it was cut off, and may be asked for again.
            ModelResponseError: it was cut off after a part of it was shown, or it has neither a content nor a reason for that.
        """
        if self._answer.is_whole():
            return
        if not self._answer.pieces:
            raise ModelServiceError(self._model, None, "the answer ended before it began")
        if self._names_its_end:
            raise self._cut_off()
        if not self._is_shown and self.response().content is None:
            raise ModelResponseError(self._model, "it holds neither a content nor a reason for having none")

    def is_whole_despite(self, failure: ModelError | None) -> bool:
        """True for a connection that was lost after the model had ended."""
        return isinstance(failure, ModelServiceError) and self._answer.is_whole()

    def delay_s(self, retries: RetryPolicy, attempt: int, failure: ModelError | None) -> float | None:
        """Seconds to wait before the call is made again; None if it is not.

        Args:
            retries: how often and when.
            attempt: the number of this attempt, from 1.
            failure: how it ended.
        """
        if self._has_shown or not isinstance(failure, ModelServiceError):
            return None
        is_passing = failure.code is None or failure.code in RETRYABLE
        return retries.delay_s(attempt, failure.retry_after_s) if is_passing else None

    def error(self, error: Exception, failure: ModelError | None) -> Exception:
        """The error for the caller: the failure, or that the answer broke off after a part of it was shown.

        Args:
            failure: what it means; None if it is raised as it is.
        """
        if self._has_shown and isinstance(failure, ModelServiceError):
            return broken_off(self._model, error)
        return failure or error

    def response(self) -> LlmResponse:
        """The whole response."""
        if self._is_shown or self._answer.pieces > 1:
            return self._answer.response()
        return with_error_code(self._last)

    def _cut_off(self) -> ModelError:
        return ModelResponseError(self._model, _CUT_OFF) if self._has_shown else ModelServiceError(self._model, None, _CUT_OFF)
