"""How messages travel: msgspec MessagePack, one tagged struct a message, never a pickle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from actors.errors import NotEncodableError
from actors.errors.user_code import error_text
from actors.messages.content import Content, Part
from actors.messages.event import Event

MAX_DEPTH = 100
"""Levels of a JSON value. What is nested deeper can be written, but not be read by everybody: parsers have their limits."""

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()
_event_decoder = msgspec.msgpack.Decoder(Event)


def encode(value: Any) -> bytes:
    """The MessagePack form of a message, an event or plain data.

    Raises:
        NotEncodableError: something in it has no wire form (a file handle, an integer beyond 64 bits, …).
    """
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotEncodableError(type(value).__name__, str(error)) from error


def plain(value: Any) -> Any:
    """A value as it is after a journey: see `plain_sized`."""
    return plain_sized(value)[0]


def plain_sized(value: Any) -> tuple[Any, int]:
    """A value as it is after a journey: dictionaries with text keys, lists, texts, numbers, bytes. And its size in bytes.

    Pydantic models and dataclasses become dictionaries, tuples and sets lists.

    Raises:
        NotEncodableError: something in it has no wire form.
    """
    try:
        builtins = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, enc_hook=_plain_hook)
    except BaseException as error:
        # The value may be of somebody's own class, which decides what telling its fields raises; nothing is awaited here, so
        # that no task is cancelled meanwhile.
        raise NotEncodableError(type(value).__name__, error_text(error)) from error
    # The journey itself: it makes lists of tuples, and finds the integers that are too long for it.
    raw = encode(builtins)
    return msgspec.msgpack.decode(raw), len(raw)


def _plain_hook(value: Any) -> Any:
    # Told by what it can do, so that this layer needs no pydantic.
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"objects of type {type(value).__name__} have no wire form")
    return dump(mode="json")


def encode_event(event: Event) -> bytes:
    """The wire form of an event that foreign code has made: what this gives can be read by everybody.

    Raises:
        NotEncodableError: a field has a value of another type than it is declared with, is nested too deep, or is no JSON
            value.
    """
    raw = encode(event)
    try:
        # Constructors check no types, and what cannot be read again would break its session for good.
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
    """What is wrong with the JSON values in a content, or None. They reach models, so they have to be JSON strictly."""
    for part in content.parts:
        for value in _json_values(part):
            if value and (wrong := flaw(value, is_finite=True)) is not None:
                return wrong
    return None


def _json_values(part: Part) -> Iterator[Any]:
    if part.function_call is not None:
        yield part.function_call.args
        yield part.function_call.partial_args
    if part.function_response is not None:
        yield part.function_response.response
        yield part.function_response.parts
    if part.video_metadata is not None:
        yield [part.video_metadata.fps]
    for name in _JSON_FIELDS:
        yield getattr(part, name)


_JSON_FIELDS = (
    "media_resolution",
    "tool_call",
    "tool_response",
    "part_metadata",
    "audio_transcription",
    "media_processing",
    "speech_metadata",
)
"""The fields of a part that only pass through us."""


def flaw(value: Any, *, is_finite: bool = False) -> str | None:
    """Why a JSON value cannot be sent and stored although it can be written; None when it can be.

    Args:
        is_finite: NaN and infinity are flaws too; our own form can hold them, JSON cannot.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        inside: list[Any] = []
        for each in level:
            values = each.values() if isinstance(each, dict) else each
            if is_finite and any(isinstance(one, float) and not math.isfinite(one) for one in values):
                return "NaN and infinity are no JSON values: use None or a text instead"
            inside += [one for one in values if isinstance(one, (dict, list, tuple))]
        if not inside:
            return None
        level = inside
    return f"it is nested deeper than {MAX_DEPTH} levels"


def decode(raw: bytes, type: type[T]) -> T:
    """Read a value of the given type back. Raises msgspec.ValidationError, naming the field, when it is none."""
    return msgspec.msgpack.decode(raw, type=type)


def decode_event(raw: bytes, seq: int) -> Event:
    """The event in `raw`, with its place in the log filled in."""
    event = _event_decoder.decode(raw)
    # The object is ours and nobody has seen it yet: filling the field in saves a copy of every event read.
    msgspec.structs.force_setattr(event, "seq", seq)
    return event
