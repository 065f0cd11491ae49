"""What all messages share, the fencing token of a turn, and the replies that carry nothing of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import msgspec

from actors.messages import typed
from actors.messages.codec import encode
from actors.messages.json_types import JsonValue
from actors.messages.session import SessionKey

PROTOCOL = 1
"""The version of the protocol: programs and deployments with the same version understand each other, whatever their releases.

It is raised when a program of before would be misunderstood: a message or a field of one is gone, or means something else. A
message may get fields that have defaults, and a deployment may get messages that it did not know, without that.
"""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Common shape of all messages: frozen, and tagged with the name of its class."""


class TurnRef(msgspec.Struct, frozen=True, array_like=True, cache_hash=True, gc=False):
    """Fencing token: a turn, its epoch, and the run that writes. Writes of an older epoch or of an abandoned run are refused.

    Attributes:
        epoch: starts at 1; each time the turn is resumed or continued after a pause, it gets the next one.
        run: the number of an agent's run in that epoch; 0: the Runner itself.
        generation: names the log. A turn may begin under the id of one that was rewound, or deleted with its session; its epochs
            and runs have the same numbers.
    """

    key: SessionKey
    invocation_id: str
    epoch: int
    run: int = 0
    generation: str = ""


class StoredEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An encoded event with its position in the log. Partial events, which are not stored, have position 0."""

    seq: int
    raw: bytes


class Note(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A supervisor's note of its progress on its way to the log, as what it runs brings it along.

    Attributes:
        run: the number of the supervisor's run.
        raw: the event, encoded.
    """

    run: int
    raw: bytes


class Ack(Message, frozen=True, kw_only=True):
    """Empty acknowledgement."""

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """All have done it."""
        return cls()


class ErrorReply(Message, frozen=True, kw_only=True):
    """The reply of an actor that raised.

    Attributes:
        error: the class name of one of this project's errors.
        args: the arguments with which it is raised again on the other side.
        traceback: where users' code failed; "" when it has no part in the error.
    """

    error: str
    args: Sequence[JsonValue] = ()
    traceback: str = ""


_errors = typed.decoder(ErrorReply)

_ERROR_TAG = encode(ErrorReply(error=""))[1:].partition(encode("error"))[0]
"""What follows the number of fields in the bytes of an ErrorReply."""


def error_in(raw: bytes) -> ErrorReply | None:
    """The error that a reply is, in its bytes; None if it is none. Only an error is decoded."""
    return _errors.decode(raw) if raw.startswith(_ERROR_TAG, 1) else None
