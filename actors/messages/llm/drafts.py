"""Contents and responses that callbacks may change in place, as they may change ADK's.

Messages are immutable, for a log and many requests share them. A draft is a copy with the same fields whose attributes can be
set. It is made only for callbacks, and what they leave becomes a message again: see `own_content`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast, get_origin

import msgspec

from actors.errors import NotEncodableError
from actors.errors.user_code import error_text, is_interrupt
from actors.messages import typed
from actors.messages.content import Blob, Content, FileData, FunctionCall, FunctionResponse, Part
from actors.messages.json_types import JsonObject
from actors.messages.llm.fields import Fields
from actors.messages.llm.lazy_list import LazyList
from actors.messages.llm.model import LlmResponse

S = TypeVar("S", bound=msgspec.Struct)
G = TypeVar("G", Content, Part)


class _Draft:
    """Makes a draft equal to the message with the same fields."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, msgspec.Struct):
            return NotImplemented
        return bool(msgspec.to_builtins(self) == msgspec.to_builtins(other))

    __hash__ = None  # type: ignore[assignment]


def _draft(kind: type[S], **fields: object) -> type[S]:
    """A class with the same name and fields, whose attributes can be set.

    Args:
        fields: the types of the fields that hold drafts, too.
    """
    typed: list[tuple[str, object, object]] = [
        (name, held, [] if get_origin(held) is list else None) for name, held in fields.items()
    ]
    return cast(type[S], msgspec.defstruct(kind.__name__, typed, bases=(_Draft, kind), frozen=False, kw_only=True))


_PartDraft = _draft(
    Part,
    function_call=_draft(FunctionCall) | None,
    function_response=_draft(FunctionResponse) | None,
    inline_data=_draft(Blob) | None,
    file_data=_draft(FileData) | None,
)
_ContentDraft = _draft(Content, parts=list[_PartDraft])  # type: ignore[valid-type]
_ResponseDraft = _draft(LlmResponse, content=_ContentDraft | None)

_encode = msgspec.msgpack.Encoder().encode
_content_draft = typed.decoder(_ContentDraft).decode
_response_draft = typed.decoder(_ResponseDraft).decode
_content = typed.decoder(Content).decode
_part = typed.decoder(Part).decode


def draft_of_content(content: Content) -> Content:
    """A copy that may be changed in place."""
    return _content_draft(_encode(content))


def draft_of_response(response: LlmResponse) -> LlmResponse:
    """A copy that may be changed in place. Its metadata have attributes."""
    draft = _response_draft(_encode(response))
    if draft.grounding_metadata is not None:
        msgspec.structs.force_setattr(draft, "grounding_metadata", Fields(draft.grounding_metadata))
    return draft


class ContentDrafts(LazyList):
    """The conversation of a request, of which each content becomes a draft when it is looked at.

    A long conversation costs nothing where callbacks look at its end only. Contents of google-genai may be
    added, too.

    Args:
        contents: the conversation: messages, as models get them.
    """

    def __init__(self, contents: Iterable[Content]) -> None:
        super().__init__(contents, Content, lambda content: draft_of_content(own_content(content)))

    def settled(self) -> list[Content]:
        """The contents as messages. Raises what `own_content` raises."""
        return self.restored(own_content)


def own_contents(given: Iterable[object]) -> list[Content]:
    """Contents of whatever kind as messages. Raises what `own_content` raises."""
    return [own_content(each) for each in given]


def own_content(given: object) -> Content:
    """A content of ours, a draft, one of google-genai, or its dictionary, as a message. Parts of it may be of another kind, too.

    Raises:
        TypeError: it is nothing of that.
        InvalidMessageError: the dictionary has not the fields of a content.
        NotEncodableError: the object has not the fields of a content.
    """
    if isinstance(given, Content):
        if type(given) is Content and _are_all(Part, given.parts):
            return given
        if type(given) is _ContentDraft and _are_all(_PartDraft, given.parts or ()):
            return _content(_encode(given))
        return Content(role=given.role, parts=[each if type(each) is Part else own_part(each) for each in given.parts or ()])
    if hasattr(given, "model_dump") and hasattr(given, "parts"):
        return _from_genai(Content, given)
    if isinstance(given, dict):
        return Content.from_dict(given)
    raise TypeError(f"a content must be a Content, ours or google-genai's, not {type(given).__name__}")


def own_part(given: object) -> Part:
    """A part of ours, a draft, one of google-genai, or its dictionary, as a message. Raises what `own_content` raises."""
    if isinstance(given, Part):
        return _part(_encode(given))
    if hasattr(given, "model_dump") and hasattr(given, "text"):
        return _from_genai(Part, given)
    if isinstance(given, dict):
        return Content.from_dict({"parts": [cast(JsonObject, given)]}).parts[0]
    raise TypeError(f"a part must be a Part, ours or google-genai's, not {type(given).__name__}")


def _are_all(kind: type, parts: Sequence[object]) -> bool:
    # No generator: this is asked of every content of a conversation.
    for part in parts:  # noqa: SIM110
        if type(part) is not kind:
            return False
    return True


def _from_genai(kind: type[G], given: object) -> G:
    try:
        return kind.from_genai(given)
    except BaseException as error:
        # The object may be of a user's own class, whose methods may raise anything; nothing is awaited, so it is no cancellation.
        if is_interrupt(error):
            raise
        raise NotEncodableError(type(given).__name__, error_text(error)) from error
