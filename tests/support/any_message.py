"""Decodes every message that there is, as no actor and no client does: each knows its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from actors.messages.protocol.base import Message, decoder


def messages(kind: type[Message] = Message) -> Iterator[type[Message]]:
    """All classes of messages, without those from which others are made."""
    for each in kind.__subclasses__():
        if not each.__subclasses__():
            yield each
        yield from messages(each)


# The messages of all layers.
import_module("actors.layers.services")

MESSAGES = tuple(each for each in messages() if each.__module__.startswith("actors."))

_decoder = decoder(MESSAGES)


def decode_message(raw: bytes) -> Message:
    """The message in some bytes. Raises msgspec.DecodeError for bytes that hold none."""
    message: Message = _decoder.decode(raw)
    return message
