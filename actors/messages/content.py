"""What is said: Content made of Parts, field for field what google-genai's types hold.

The structs are our own so that a log can be read, and an agent run, without any model SDK. Names on the wire are
google-genai's camelCase ones; values at their default are left out. The types that only pass through us (resolutions,
transcripts, server-side tools) stay plain dictionaries with camelCase keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec


class _Noun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Common shape of everything in a content: immutable, camelCase, defaults not written."""


class Blob(_Noun, frozen=True, kw_only=True):
    """Bytes inside a message. `data` is raw, base64 only in JSON."""

    data: bytes = b""
    mime_type: str | None = None
    display_name: str | None = None


class FileData(_Noun, frozen=True, kw_only=True):
    """A file that the model's service can fetch by its URI."""

    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class FunctionCall(_Noun, frozen=True, kw_only=True):
    """The model asks for a tool. `id` is unique in the session; `args` is a JSON object."""

    id: str | None = None
    name: str = ""
    args: dict[str, Any] = {}
    partial_args: list[dict[str, Any]] | None = None
    will_continue: bool | None = None


class FunctionResponse(_Noun, frozen=True, kw_only=True):
    """What a tool returned for the call with the same `id`; `response` is a JSON object."""

    id: str | None = None
    name: str = ""
    response: dict[str, Any] = {}
    parts: list[dict[str, Any]] | None = None
    will_continue: bool | None = None
    scheduling: str | None = None


class ExecutableCode(_Noun, frozen=True, kw_only=True):
    """Code that the model wrote for its service to run."""

    code: str | None = None
    language: str | None = None
    id: str | None = None


class CodeExecutionResult(_Noun, frozen=True, kw_only=True):
    """What the model's service got from running the code."""

    outcome: str | None = None
    output: str | None = None
    id: str | None = None


class VideoMetadata(_Noun, frozen=True, kw_only=True):
    """Which piece of a video counts. Offsets are strings of seconds ("1.5s"), `fps` frames per second."""

    start_offset: str | None = None
    end_offset: str | None = None
    fps: float | None = None


class Part(_Noun, frozen=True, kw_only=True):
    """One piece of a content: normally exactly one of its kinds is set, with `thought` as a mark on `text`."""

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
    media_resolution: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None
    part_metadata: dict[str, Any] | None = None
    audio_transcription: dict[str, Any] | None = None
    media_processing: dict[str, Any] | None = None
    speech_metadata: dict[str, Any] | None = None

    def is_empty(self) -> bool:
        """True when the part says nothing at all: no kind is set, or its text is the empty string."""
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


class Content(_Noun, frozen=True, kw_only=True):
    """A message: who speaks (`role` is `user` or `model`) and its parts in order."""

    role: str | None = None
    parts: Sequence[Part] = ()

    @classmethod
    def of_text(cls, text: str, role: str = "user") -> Content:
        """A content of one text part."""
        return cls(role=role, parts=[Part(text=text)])

    @classmethod
    def from_genai(cls, content: Any) -> Content:
        """Our form of a `google.genai.types.Content`; nothing is lost.

        Args:
            content: any content of the SDK; it is not changed.

        Returns:
            The same content, with enums as their string values. A field that is None and one that is empty become the same.

        Raises:
            AttributeError: `content` is no pydantic model.
            msgspec.ValidationError: it has not the fields of a content.
        """
        plain = msgspec.to_builtins(content.model_dump(by_alias=True, exclude_none=True), builtin_types=(bytes,))
        for part in plain.get("parts", ()):
            for kind, value in part.items():
                # Bytes stay raw in our own fields, and are base64 inside the dictionaries that only pass through us.
                if isinstance(value, dict) and kind != "inlineData":
                    part[kind] = msgspec.to_builtins(value)
        return msgspec.convert(plain, cls)

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
        """True when there is nothing in it for a reader."""
        return all(part.is_empty() for part in self.parts)

    def function_calls(self) -> Iterator[FunctionCall]:
        """The calls in this content, in order."""
        return (part.function_call for part in self.parts if part.function_call is not None)

    def function_responses(self) -> Iterator[FunctionResponse]:
        """The responses in this content, in order."""
        return (part.function_response for part in self.parts if part.function_response is not None)


_to_genai: Callable[[Content], Any] | None = None
"""Needs the SDK, which `actors` never imports: so whoever knows the SDK registers it."""


def register_to_genai(convert: Callable[[Content], Any]) -> None:
    """Set the function that does the work of `Content.to_genai`. `runtime.models` registers it when it is imported."""
    global _to_genai
    _to_genai = convert
