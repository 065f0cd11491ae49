"""What all actors share: messages in, replies out, and errors that reach the sender."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actors.errors import NotEncodableError, RaygroveError, name_and_args
from actors.errors.tracebacks import foreign_traceback
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.interfaces.transport import EARLY_REPLY
from actors.messages.codec import encode
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import ConnectionFigures, ErrorReply, Message

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Message]]
"""Handles one message and returns the reply. `Any`: each handler takes a message class of its own."""


class Actor:
    """A plain class that handles messages by their type. An engine runs it; a test may just call it.

    Attributes:
        connections: the figures of its process, for its statistics. An engine with several processes sets it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections: Callable[[], ConnectionFigures | None] = lambda: None
        self._handlers = self.handlers()

    def handlers(self) -> Mapping[type[Message], Handler]:
        """The messages that the actor takes, each with its handler."""
        raise NotImplementedError

    async def receive(self, raw: bytes) -> bytes:
        """Handle one encoded message and return the encoded reply. Errors do not leave it: they are replied as `ErrorReply`."""
        try:
            message = decode_message(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            # Constructors check no types, so the sender may have put a value of another type into a field.
            return _error_reply(NotEncodableError(f"message for {self.name}", str(error)))
        try:
            return encode(await self._handlers[type(message)](message))
        except RaygroveError as error:
            return _error_reply(error)
        except BaseException as error:
            # The border of the actor: a defect in one message must reach its sender, and must not stop the other messages.
            if is_cancellation(error):
                raise
            kind = type(message).__name__
            logger.exception("%s failed on %s", self.name, kind)
            reason = RaygroveError(f"{self.name} failed on {kind}: {code_of(error)}: {error_text(error)}")
            return _error_reply(reason.with_traceback(error.__traceback__))


def reply_early(message: Message) -> None:
    """Send a reply to the message that is being handled, before the last one, which has to say all of it once more."""
    reply = EARLY_REPLY.get()
    if reply is not None:
        reply(encode(message))


def _error_reply(error: RaygroveError) -> bytes:
    name, args = name_and_args(error)
    traceback = foreign_traceback(error)
    try:
        return encode(ErrorReply(error=name, args=args, traceback=traceback))
    except NotEncodableError:
        # Its arguments cannot be encoded; its text can.
        return encode(ErrorReply(error=RaygroveError.__name__, args=[f"{name}: {error_text(error)}"], traceback=traceback))
