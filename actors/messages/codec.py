"""How messages are encoded: msgspec MessagePack, one tagged struct per message, never a pickle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TypeVar

import msgspec

from actors.errors import NotEncodableError
from actors.errors.user_code import error_text, is_interrupt
from actors.messages import typed
from actors.messages.content import Content, Part
from actors.messages.event import Event
from actors.messages.json_types import JsonValue

MAX_DEPTH = 100
"""Levels of nesting in a JSON value. Deeper values can be written, but not every parser can read them."""

TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
"""What is said of such a value, also where Python itself goes no deeper: each version has other limits, and other words."""

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()
_event_decoder = typed.decoder(Event)


def encode(value: object) -> bytes:
    """The MessagePack form of a message, an event or plain data.

    Raises:
        NotEncodableError: something in it has no wire form, for instance a file handle or an integer beyond 64 bits.
    """
    try:
        return _encoder.encode(value)
    except RecursionError as error:
        raise NotEncodableError(type(value).__name__, TOO_DEEP) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise NotEncodableError(type(value).__name__, str(error)) from error


def plain(value: object) -> JsonValue:
    """A value in the form in which its receiver gets it; see `plain_sized`."""
    return plain_sized(value)[0]


def plain_sized(value: object) -> tuple[JsonValue, int]:
    """A value in the form in which its receiver gets it, and the bytes that it takes.

    The form is dictionaries with text keys, lists, texts, numbers, booleans, None and bytes. Pydantic models and dataclasses
    become dictionaries, tuples and sets become lists.

    Raises:
        NotEncodableError: something in it has no wire form.
    """
    try:
        builtins = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, enc_hook=_plain_hook)
        # Encoding makes lists of tuples, and finds the integers that are too long.
        raw = encode(builtins)
        return msgspec.msgpack.decode(raw), len(raw)
    except NotEncodableError:
        raise
    except RecursionError as error:
        raise NotEncodableError(type(value).__name__, TOO_DEEP) from error
    except BaseException as error:
        # The value may be of a user's own class, whose fields may raise anything; nothing is awaited, so it is no cancellation.
        if is_interrupt(error):
            raise
        raise NotEncodableError(type(value).__name__, error_text(error)) from error


def _plain_hook(value: object) -> JsonValue:
    # By its method, so that this module needs no pydantic.
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"objects of type {type(value).__name__} have no wire form")
    return dump(mode="json")


def encode_event(event: Event) -> bytes:
    """The wire form of an event that user code has made, checked so that every reader can decode it.

    Raises:
        NotEncodableError: a field has a value of another type than declared, is nested too deep, or is no JSON value.
    """
    raw = encode(event)
    try:
        # Constructors check no types, and an event that cannot be decoded would break its session for good.
        event = _event_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotEncodableError(Event.__name__, str(error)) from error
    if not math.isfinite(event.timestamp):
        raise NotEncodableError(Event.__name__, "its timestamp is no time")
    for value in (event.actions.state_delta, event.actions.agent_state, event.custom_metadata):
        if value and (wrong := flaw(value)) is not None:
            raise NotEncodableError(Event.__name__, wrong)
    if event.content is not None and (wrong := content_flaw(event.content)) is not None:
        raise NotEncodableError(Event.__name__, wrong)
    return raw


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


def flaw(value: JsonValue, *, is_finite: bool = False) -> str | None:
    """Why a value must be refused although MessagePack can encode it; None when it is fine.

    Args:
        value: a list or an object.
        is_finite: refuse NaN and infinity too, which MessagePack can encode but JSON cannot.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        inside: list[JsonValue] = []
        for each in level:
            values = each.values() if isinstance(each, dict) else each
            if is_finite and any(isinstance(one, float) and not math.isfinite(one) for one in values):
                return "NaN and infinity are no JSON values: use None or a text instead"
            inside += [one for one in values if isinstance(one, (dict, list, tuple))]
        if not inside:
            return None
        level = inside
    return TOO_DEEP


def decode_event(raw: bytes, seq: int) -> Event:
    """The event in `raw`, with its position in the log, `seq`, filled in."""
    event = _event_decoder.decode(raw)
    # Nothing else refers to the new object, so setting the field is safe and saves a copy of every event that is read.
    msgspec.structs.force_setattr(event, "seq", seq)
    return event
