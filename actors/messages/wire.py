"""How messages travel: msgspec MessagePack, one tagged struct a message, never a pickle."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from actors.errors import NotEncodableError
from actors.messages.event import Event

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
    """A value as it is after a journey: dictionaries with text keys, lists, texts, numbers, bytes.

    Pydantic models and dataclasses become dictionaries, tuples and sets lists.

    Raises:
        NotEncodableError: something in it has no wire form.
    """
    try:
        builtins = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, enc_hook=_plain_hook)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotEncodableError(type(value).__name__, str(error)) from error
    # The journey itself: it makes lists of tuples, and finds the integers that are too long for it.
    return msgspec.msgpack.decode(encode(builtins))


def _plain_hook(value: Any) -> Any:
    # Told by what it can do, so that this layer needs no pydantic.
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"objects of type {type(value).__name__} have no wire form")
    return dump(mode="json")


def decode(raw: bytes, type: type[T]) -> T:
    """Read a value of the given type back. Raises msgspec.ValidationError, naming the field, when it is none."""
    return msgspec.msgpack.decode(raw, type=type)


def decode_event(raw: bytes, seq: int) -> Event:
    """The event in `raw`, with its place in the log filled in."""
    event = _event_decoder.decode(raw)
    # The object is ours and nobody has seen it yet: filling the field in saves a copy of every event read.
    msgspec.structs.force_setattr(event, "seq", seq)
    return event
