"""Contents and responses that callbacks may change in place, as they may change ADK's.

Messages are immutable, for a log and many requests share them. A draft is a copy with the same fields whose attributes can be
set. It is made only for callbacks, and what they leave becomes a message again: see `own_content`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import is_
from typing import Any, TypeVar, cast, get_origin

import msgspec

from actors.errors import NotEncodableError
from actors.errors.user_code import error_text, is_interrupt
from actors.messages import codec
from actors.messages.content import Blob, Content, FileData, FunctionCall, FunctionResponse, Part
from actors.messages.json_types import JsonObject
from actors.messages.llm import Fields, LlmResponse


class _ReadAsWhole(list[Any]):
    """The methods of a list that look at all elements."""

    @abstractmethod
    def all(self) -> list[Any]:
        """Convert all elements, and return them."""

    def __eq__(self, other: object) -> bool:
        return self.all() == other

    def __ne__(self, other: object) -> bool:
        return self.all() != other

    __hash__ = None

    def __contains__(self, wanted: object) -> bool:
        return wanted in self.all()

    def __add__(self, other: Any) -> list[Any]:
        return self.all() + list(other) if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return list(other) + self.all() if isinstance(other, list) else NotImplemented

    def __mul__(self, times: Any) -> list[Any]:
        return self.all() * int(times)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(self.all())

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (self.all(),)

    def __copy__(self) -> list[Any]:
        return self.all()

    def copy(self) -> list[Any]:
        """A plain list of all elements."""
        return self.all()

    def index(self, *wanted: Any) -> int:
        """The place of an element."""
        return self.all().index(*wanted)

    def count(self, wanted: Any) -> int:
        """The number of times that an element is there."""
        return self.all().count(wanted)


class LazyList(_ReadAsWhole):
    """A list whose elements are converted when they are looked at: most callbacks look at few of a long conversation.

    It does what a list of the converted elements does. Only code in C that takes it for a plain list sees the others: pydantic is
    one, so a model that holds such a list needs a serializer for it.

    Args:
        given: the elements, not converted. They are never changed in place.
        kind: their class. Elements of it, and of no class derived from it, are converted.
        convert: makes an element what the list is said to hold.
    """

    def __init__(self, given: Iterable[Any], kind: type, convert: Callable[[Any], Any]) -> None:
        super().__init__(given)
        self._given = list(self.raw())
        self._kind = kind
        self._convert = convert

    def raw(self) -> Iterator[Any]:
        """The elements as they are: converted where they were looked at."""
        return super().__iter__()

    def is_as_given(self) -> bool:
        """True when no element was looked at, added, removed or replaced."""
        # In C: a long conversation is asked this in each model call.
        return len(self) == len(self._given) and all(map(is_, self.raw(), self._given))

    def restored(self, restore: Callable[[Any], Any]) -> list[Any]:
        """A plain list of elements that are not converted.

        Args:
            restore: is called with each element that was not given, or was looked at; it undoes the conversion.
        """
        # Most callbacks look at the end, so nearly all is taken over in C.
        same = [*map(is_, self.raw(), self._given), False].index(False)
        given = set(map(id, self._given[same:]))
        return self._given[:same] + [each if id(each) in given else restore(each) for each in islice(self.raw(), same, None)]

    def all(self) -> list[Any]:
        """Convert all elements, and return them."""
        return [self._at(index) for index in range(len(self))]

    def _at(self, index: Any) -> Any:
        value = super().__getitem__(index)
        if type(value) is self._kind:
            value = self._convert(value)
            super().__setitem__(index, value)
        return value

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        return self._at(index)

    def __iter__(self) -> Iterator[Any]:
        place = 0
        while place < len(self):
            yield self._at(place)
            place += 1

    def __reversed__(self) -> Iterator[Any]:
        for place in range(len(self) - 1, -1, -1):
            if place < len(self):
                yield self._at(place)

    def __imul__(self, times: Any) -> Any:
        self[:] = self * times
        return self

    def pop(self, index: Any = -1) -> Any:
        """Remove and return an element."""
        if self:
            self._at(index)
        return super().pop(index)

    def remove(self, wanted: Any) -> None:
        """Remove the first such element."""
        del self[self.index(wanted)]

    def sort(self, **how: Any) -> None:
        """Sort in place."""
        self[:] = sorted(self.all(), **how)


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
    held_types: list[tuple[str, object, object]] = [
        (name, held, [] if get_origin(held) is list else None) for name, held in fields.items()
    ]
    return cast(type[S], msgspec.defstruct(kind.__name__, held_types, bases=(_Draft, kind), frozen=False, kw_only=True))


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
_content_draft = codec.decoder(_ContentDraft).decode
_response_draft = codec.decoder(_ResponseDraft).decode
_content = codec.decoder(Content).decode
_part = codec.decoder(Part).decode


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
