"""Content made of Parts, field for field what google-genai's types hold.

The structs are our own so that a log can be read, and an agent run, without any model SDK. In JSON they have google-genai's
camelCase names, and fields at their default are left out. Types that only pass through us (resolutions, transcripts, server-side
tools) stay plain dictionaries with camelCase keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from actors.errors import InvalidMessageError
from actors.errors.hints import CheckedStruct
from actors.messages import codec
from actors.messages.codec import flaw, from_plain
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue
from actors.messages.shown import Shown


class _Value(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of everything in a content: immutable, camelCase in JSON, defaults left out."""


class Blob(_Value, frozen=True, kw_only=True):
    """Data inside a message. `data` is raw bytes; JSON has them as base64."""

    data: bytes = b""
    mime_type: str | None = None
    display_name: str | None = None


class FileData(_Value, frozen=True, kw_only=True):
    """A file that the model's service can fetch by its URI."""

    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class FunctionCall(_Value, frozen=True, kw_only=True):
    """A model's call of a tool. `id` is unique in the session, `args` a JSON object."""

    id: str | None = None
    name: str = ""
    args: JsonObject = {}
    partial_args: list[JsonObject] | None = None
    will_continue: bool | None = None


class FunctionResponse(_Value, frozen=True, kw_only=True):
    """The response to the call with the same `id`, by a tool or by the user; `response` is a JSON object."""

    id: str | None = None
    name: str = ""
    response: JsonObject = {}
    parts: list[JsonObject] | None = None
    will_continue: bool | None = None
    scheduling: str | None = None


class ExecutableCode(_Value, frozen=True, kw_only=True):
    """Code that a model wrote and that its service runs."""

    code: str | None = None
    language: str | None = None
    id: str | None = None


class CodeExecutionResult(_Value, frozen=True, kw_only=True):
    """The result of code that the model's service ran."""

    outcome: str | None = None
    output: str | None = None
    id: str | None = None


class VideoMetadata(_Value, frozen=True, kw_only=True):
    """The section of a video to use. Offsets are texts in seconds ("1.5s"), `fps` is frames per second."""

    start_offset: str | None = None
    end_offset: str | None = None
    fps: float | None = None
    content_layers: list[str] | None = None


class Part(_Value, frozen=True, kw_only=True):
    """One part of a content: normally exactly one of its kinds is set. `thought` marks `text` as a thought of the model."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: bytes | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    video_metadata: VideoMetadata | None = None
    media_resolution: JsonObject | None = None
    tool_call: JsonObject | None = None
    tool_response: JsonObject | None = None
    part_metadata: JsonObject | None = None
    audio_transcription: JsonObject | None = None
    media_processing: JsonObject | None = None
    speech_metadata: JsonObject | None = None
    document_metadata: JsonObject | None = None
    spreadsheet_metadata: JsonObject | None = None
    audio_metadata: JsonObject | None = None

    @classmethod
    def from_genai(cls, part: Any) -> Part:
        """A `google.genai.types.Part` as a Part: see `Content.from_genai`."""
        return codec.convert(_with_raw_bytes(_dumped(part)), cls)

    def is_empty(self) -> bool:
        """True when no kind is set, or only a text that is empty."""
        return not (self.text or self.thought_signature) and self.carries_only_text()

    def carries_only_text(self) -> bool:
        """True when no kind but text (or thought) is set."""
        return (
            self.function_call is None
            and self.function_response is None
            and self.inline_data is None
            and self.file_data is None
            and self.executable_code is None
            and self.code_execution_result is None
            and self.tool_call is None
            and self.tool_response is None
        )


class Content(_Value, frozen=True, kw_only=True):
    """A message: its role, `user` or `model`, and its parts in order."""

    role: str | None = None
    parts: Sequence[Part] = ()

    @classmethod
    def of_text(cls, text: str, role: str = "user") -> Content:
        """A content of one text."""
        return cls(role=role, parts=[Part(text=text)])

    @classmethod
    def from_dict(cls, plain: JsonMapping) -> Content:
        """A content from the dictionary that ADK's web clients and google-genai send.

        Args:
            plain: such as `{"role": "user", "parts": [{"text": "hi"}]}`. Keys are camelCase or snake_case, data bytes or base64.

        Raises:
            InvalidMessageError: a field is unknown or wrong; the message names it.
        """
        return from_plain(cls, plain, "message")

    @classmethod
    def from_json(cls, text: str | bytes) -> Content:
        """A content from the JSON of such a dictionary: see `from_dict`. Raises InvalidMessageError."""
        try:
            plain = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidMessageError(f"message is no JSON: {error}") from None
        return cls.from_dict(plain)

    def to_dict(self) -> JsonObject:
        """The content as a dictionary that can be written as JSON: camelCase keys, bytes as base64, defaults left out."""
        plain: JsonObject = msgspec.to_builtins(self)
        return plain

    def to_json(self) -> str:
        """The content as JSON: see `to_dict`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_genai(cls, content: Any) -> Content:
        """A `google.genai.types.Content` as a Content; a field that only a newer SDK has is left out.

        Args:
            content: any content of the SDK; it is not changed.

        Returns:
            The same content, with enums as their string values. A field that is None and one that is empty become the same.

        Raises:
            AttributeError: `content` is no pydantic model.
            msgspec.ValidationError: it has not the fields of a content.
        """
        return codec.convert(plain_of_genai(content), cls)

    def to_genai(self) -> Any:
        """The `google.genai.types.Content` that says the same.

        Raises:
            ImportError: no SDK is known yet, because `runtime` was not imported.
            pydantic.ValidationError: a dictionary that only passes through us is not what the SDK expects in that field.
        """
        if _to_genai is None:
            raise ImportError("Content.to_genai needs the google-genai SDK, which comes with runtime: import runtime first")
        return _to_genai(self)

    @property
    def text(self) -> str:
        """All text parts joined, thoughts left out."""
        return "".join(part.text for part in self.parts if part.text and not part.thought)

    def is_empty(self) -> bool:
        """True when all its parts are empty."""
        # No generator: this is asked a dozen times in a turn.
        for part in self.parts:  # noqa: SIM110
            if not part.is_empty():
                return False
        return True

    def function_calls(self) -> Iterator[FunctionCall]:
        """The calls in this content, in order."""
        # No generator: this is asked a dozen times in a turn, and most contents have none.
        calls: list[FunctionCall] = []
        for part in self.parts:
            if part.function_call is not None:
                calls.append(part.function_call)
        return iter(calls)

    def function_responses(self) -> Iterator[FunctionResponse]:
        """The responses in this content, in order."""
        responses: list[FunctionResponse] = []
        for part in self.parts:
            if part.function_response is not None:
                responses.append(part.function_response)
        return iter(responses)


class Answer:
    """Mixin of what a model has said, with ADK's names for what it holds."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def content(self) -> Content | None:
            """The text and the calls of the model."""

    def get_function_calls(self) -> list[FunctionCall]:
        """The calls in its content, in order."""
        return list(self.content.function_calls()) if self.content is not None else []

    def get_function_responses(self) -> list[FunctionResponse]:
        """The responses in its content, in order."""
        return list(self.content.function_responses()) if self.content is not None else []


def plain_of_genai(content: Any) -> JsonObject:
    """A `google.genai.types.Content` as a dictionary with all that it has, also what this version does not know.

    Raises:
        AttributeError: `content` is no pydantic model.
    """
    plain = _dumped(content)
    plain["parts"] = [_with_raw_bytes(part) for part in plain.get("parts", ())]
    return plain


def _dumped(theirs: Any) -> JsonObject:
    """An object of google-genai as a dictionary with camelCase keys, enums as their values, bytes raw."""
    plain: JsonObject = msgspec.to_builtins(theirs.model_dump(by_alias=True, exclude_none=True), builtin_types=(bytes,))
    return plain


def _with_raw_bytes(part: JsonObject) -> JsonObject:
    """A part whose bytes are raw in our own fields, and base64 inside the dictionaries that only pass through us."""
    return {
        kind: msgspec.to_builtins(value) if isinstance(value, dict) and kind != "inlineData" else value
        for kind, value in part.items()
    }


_to_genai: Callable[[Content], Any] | None = None
"""What `Content.to_genai` calls. It needs the SDK, which `actors` never imports, so `runtime.models` registers it."""


def register_to_genai(convert: Callable[[Content], Any]) -> None:
    """Set the function that does the work of `Content.to_genai`. `runtime.models` registers it when it is imported."""
    global _to_genai
    _to_genai = convert


class Received(Shown, CheckedStruct, frozen=True, array_like=True):
    """A message that an agent has read.

    Attributes:
        content: says what was sent.
        sender: the agent that has sent it; "user": the user has.
        run: of a message about a background run that `sender` works on, the id of the run; else "".
        status: how that run is: "asks", or a status of `BackgroundRun`.
    """

    content: Content
    sender: str = "user"
    run: str = ""
    status: str = ""

    @property
    def text(self) -> str:
        """The texts of its parts, joined: see `Content.text`."""
        return self.content.text


def content_flaw(content: Content) -> str | None:
    """The flaw of the JSON values in a content, or None. Models read them, so they must be strict JSON."""
    for part in content.parts:
        if not any(_held(part)):
            continue
        for value in _json_values(part):
            if (wrong := flaw(value, is_finite=True)) is not None:
                return wrong
    return None


def _json_values(part: Part) -> list[JsonValue]:
    """The JSON values of a part that are not empty."""
    values = list(_passing_through(part))
    if part.function_call is not None:
        values += (part.function_call.args, part.function_call.partial_args)
    if part.function_response is not None:
        values += (part.function_response.response, part.function_response.parts)
    if part.video_metadata is not None:
        values.append([part.video_metadata.fps])
    return list(filter(None, values))


_PASSING_THROUGH = (
    "media_resolution",
    "tool_call",
    "tool_response",
    "part_metadata",
    "audio_transcription",
    "media_processing",
    "speech_metadata",
    "document_metadata",
    "spreadsheet_metadata",
    "audio_metadata",
)
"""The fields of a part that only pass through us."""

_passing_through: Callable[[Part], Iterable[JsonValue]] = attrgetter(*_PASSING_THROUGH)

_held: Callable[[Part], Iterable[object]] = attrgetter("function_call", "function_response", "video_metadata", *_PASSING_THROUGH)
"""The fields of a part in which there may be JSON values. Most parts are text only, and have none of them."""
