"""The union of all messages, by which a decoder knows each of them from its tag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

import msgspec

from actors.messages.codec import encode
from actors.messages.protocol import (
    base,
    log,
    mcp,
    outcomes,
    progress,
    rate_limits,
    retention,
    runs,
    sessions,
    subscriptions,
    turn_queries,
    turns,
    users,
)
from actors.messages.protocol.base import Message
from actors.messages.protocol.operating import batches, shared_states
from actors.messages.protocol.placing import moves, seats
from actors.messages.protocol.schedules import changes, due

_MODULES = (
    base,
    outcomes,
    progress,
    turns,
    runs,
    log,
    subscriptions,
    turn_queries,
    sessions,
    shared_states,
    users,
    seats,
    moves,
    retention,
    changes,
    due,
    batches,
    rate_limits,
    mcp,
)


def _messages() -> Iterator[type[Message]]:
    """Every message that one of the modules defines, without those from which others are made."""
    for module in _MODULES:
        defined = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
        yield from (each for each in defined if issubclass(each, Message) and not each.__subclasses__())


AnyMessage: Any = Union[tuple(_messages())]  # noqa: UP007
"""Any message."""

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(AnyMessage)

decode_message = _decoder.decode
"""The message in some bytes. Raises msgspec.DecodeError for bytes that hold none, RecursionError for a nesting too deep."""

_ERROR_TAG = encode(base.ErrorReply(error=""))[1:].partition(encode("error"))[0]
"""What follows the number of fields in the bytes of an ErrorReply."""


def error_in(raw: bytes) -> base.ErrorReply | None:
    """The error that a reply is, in its bytes; None if it is none. Only an error is decoded."""
    if not raw.startswith(_ERROR_TAG, 1):
        return None
    error = decode_message(raw)
    assert isinstance(error, base.ErrorReply)
    return error
