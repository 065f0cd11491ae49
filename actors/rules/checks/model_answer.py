"""Makes a model's response fit for the log: models, and the code between them and us, may say anything.

Rules of this file:

- Whatever can be kept is kept: a call whose arguments are no JSON object stays a call, and is answered with the error, so that
  the model can correct it.
- Models do not answer calls, users and tools do: function responses in a model's response are dropped.
- One call has one complete response, after any partial ones: of two, none could be chosen without losing what the other says.
  Without any response the model had nothing to say.
- Halves of surrogate pairs are joined, in pieces and in whole responses; one without its other half becomes U+FFFD.
- A response that says nothing is no answer: it has an error code, so that programs see it.
- A response that still has fields of other types than declared could not be read again, so it is refused as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from actors.errors import InvalidMessageError, ModelResponseError, NotEncodableError
from actors.errors.user_code import error_text
from actors.messages import codec
from actors.messages.codec import encode, flaw, plain
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.drafts import own_content
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.llm import LlmResponse
from actors.rules.checks.ids import is_id

MALFORMED = "malformed_arguments"
"""The one argument of a call whose arguments are no JSON object; its value is what is wrong with them."""

NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"
"""ADK's code of a response that says nothing, though its model was done."""

_MAX_SHOWN = 300
"""Characters of wrong arguments that the model is shown again."""

_ORDER = "it has to yield any pieces with partial=True, and then one whole answer with everything that they said"

_MALFORMED = (
    NotEncodableError,
    InvalidMessageError,
    msgspec.DecodeError,
    AttributeError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""What looking at a response raises that has not the declared types."""


_response: Callable[[bytes], LlmResponse] = codec.decoder(LlmResponse).decode
_arguments_of: Callable[[str], JsonObject] = codec.json_decoder(JsonObject).decode

T = TypeVar("T")


class ModelAnswer:
    """Takes in the responses of one model call, in their order.

    Args:
        model: the model's name, for errors.
    """

    _has_partial = False
    _complete: tuple[object, ...] = ()

    def __init__(self, model: str) -> None:
        self._model = model
        self._text = TextInPieces()

    def add_partial(self, content: Content | None, max_inline_bytes: int) -> Content | None:
        """Take in the content of a partial response. Returns it without large data; None when nothing of it is to be shown yet.

        Raises:
            ModelResponseError: it comes after the complete one, or its parts are no parts.
        """
        if self._complete:
            raise ModelResponseError(self._model, f"it yielded a partial response after the complete one: {_ORDER}")
        self._has_partial = True
        try:
            parts = own_content(content).parts if content is not None else ()
            shown = Content(role="model", parts=[self._joined(part) for part in parts if not _is_large(part, max_inline_bytes)])
            return None if shown.is_empty() else shown
        except _MALFORMED as error:
            raise ModelResponseError(self._model, f"a piece of it is malformed: {error_text(error)}") from error

    def _joined(self, part: Part) -> Part:
        if not part.text:
            return part if part.carries_only_text() else _encodable(part)[0]
        text = self._text.add(part.text)
        return part if text is part.text else msgspec.structs.replace(part, text=text)

    def add_complete(self, response: object) -> None:
        """Take in the complete response. Raises ModelResponseError when there is one already."""
        if self._complete:
            raise ModelResponseError(self._model, f"it yielded two complete responses: {_ORDER}")
        self._complete = (response,)

    def complete(self) -> object:
        """The complete response, still unchecked; an empty one when the model yielded nothing.

        Raises:
            ModelResponseError: there are partial responses only.
        """
        if not self._complete and self._has_partial:
            raise ModelResponseError(self._model, f"it yielded partial responses only: {_ORDER}")
        return self._complete[0] if self._complete else LlmResponse()


def checked_response(response: object, model: str, warn: Callable[[str], None]) -> LlmResponse:
    """The response with role `model`, JSON objects as arguments of calls, and no function responses.

    Args:
        response: what the model, or a callback in its place, returned.
        model: the model's name, for the error.
        warn: called with a sentence for every part that is dropped.

    Raises:
        ModelResponseError: it is no LlmResponse, or a field in it is of another type than declared.
    """
    if not isinstance(response, LlmResponse):
        raise ModelResponseError(model, f"it yielded a {type(response).__name__} and no LlmResponse")
    content = response.content
    try:
        if content is not None and not _is_plain(content):
            content = Content(role="model", parts=_parts(own_content(content).parts, warn))
            response = msgspec.structs.replace(response, content=None if content.is_empty() else content)
        metadata = response.grounding_metadata
        if metadata is not None and (dump := getattr(metadata, "model_dump", None)) is not None:
            response = msgspec.structs.replace(response, grounding_metadata=dump(mode="json", by_alias=True, exclude_none=True))
        return _response(_encodable(response)[1])
    except _MALFORMED as error:
        # Constructors check no types, so any attribute may be anything.
        raise ModelResponseError(model, f"it is malformed: {error_text(error)}") from error


def _encodable(value: T) -> tuple[T, bytes]:
    """A response or a part of one, with its characters whole, and its encoded form. Raises NotEncodableError."""
    try:
        return value, encode(value)
    except NotEncodableError:
        plain_form = joined_in(msgspec.to_builtins(value, builtin_types=(bytes,)))
        value = codec.convert(plain_form, type(value))
        return value, encode(value)


def decoded_arguments(text: str) -> JsonObject:
    """The arguments of a call that its service has written as JSON; if they are no JSON object, what is wrong with them."""
    try:
        return _arguments_of(joined(text))
    except (msgspec.DecodeError, RecursionError) as error:
        if "\\ud" in text.lower():
            # Half a surrogate pair may stand there as an escape, too.
            with suppress(ValueError, RecursionError):
                return _arguments_of(json.dumps(joined_in(json.loads(text))))
        return {MALFORMED: f"{error}: {text[:_MAX_SHOWN]}"}


def large_data(parts: Sequence[Part], max_inline_bytes: int) -> list[int]:
    """The indexes of the parts whose inline data is too large for the log."""
    return [index for index, part in enumerate(parts) if _is_large(part, max_inline_bytes)]


def placeholder(filename: str, part: Part) -> Part:
    """The part that the log has in place of one with data. Its signature stays, since models want it back."""
    return msgspec.structs.replace(part, inline_data=None, text=f"Generated file: {filename}. It is saved into artifacts")


def _is_large(part: Part, max_inline_bytes: int) -> bool:
    return part.inline_data is not None and len(part.inline_data.data) > max_inline_bytes


def _is_plain(content: object) -> bool:
    """True for a content of ours that stays as it is: it is the model's, and says something with neither calls nor responses."""
    if type(content) is not Content or content.role != "model":
        return False
    for part in content.parts:
        if type(part) is not Part or part.function_call is not None or part.function_response is not None:
            return False
    return not content.is_empty()


def _parts(given: Sequence[Part], warn: Callable[[str], None]) -> list[Part]:
    parts = []
    for part in given:
        if part.function_response is not None:
            warn(f"a model answered the call {part.function_response.id!r} itself: that is left out")
            part = msgspec.structs.replace(part, function_response=None)
            if part.is_empty():
                continue
        if part.function_call is not None:
            part = msgspec.structs.replace(part, function_call=_call(part.function_call))
        parts.append(part)
    return parts


def _call(call: FunctionCall) -> FunctionCall:
    # An invalid id is removed; calls without one get a new id later.
    return msgspec.structs.replace(call, id=call.id if is_id(call.id) else None, args=_arguments(call.args))


def _arguments(given: object) -> JsonObject:
    if given is None:
        return {}
    if isinstance(given, str):
        given = decoded_arguments(given)
    if not isinstance(given, dict):
        return {MALFORMED: f"they are of type {type(given).__name__}"}
    if not given:
        return {}
    try:
        args: JsonObject = _plain(given)
    except NotEncodableError as error:
        return {MALFORMED: joined(str(error))}
    wrong = flaw(args, is_finite=True)
    return args if wrong is None else {MALFORMED: wrong}


def _plain(given: JsonObject) -> JsonValue:
    try:
        return plain(given)
    except NotEncodableError as error:
        if not isinstance(error.__cause__, UnicodeEncodeError):
            raise
        return plain(joined_in(given))


def joined(text: str) -> str:
    """The text with the halves of each surrogate pair joined; U+FFFD stands for a half without its other half."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def joined_in(value: JsonValue) -> JsonValue:
    """A copy of a JSON value, in which all texts and keys are `joined`."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, dict):
        return {joined(key) if isinstance(key, str) else key: joined_in(each) for key, each in value.items()}
    return [joined_in(each) for each in value] if isinstance(value, list | tuple) else value


class TextInPieces:
    """A text that comes in pieces: a half at the end of one waits for the next one."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """Take in the next piece. Returns what can be shown now."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return joined(text.removesuffix(self._half))
