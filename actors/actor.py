"""What all actors share: messages in, replies out, and errors that reach the one who asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from actors.errors import NotEncodableError, RaygroveError, name_and_args
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.messages.codec import encode
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import ErrorReply, Message

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Message]]


class Actor:
    """A plain class that handles messages by their type. An engine makes it live; a test may just call it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._handlers = self.handlers()

    def handlers(self) -> Mapping[type[Message], Handler]:
        """The messages that the actor takes, each with the method that handles it."""
        raise NotImplementedError

    async def receive(self, raw: bytes) -> bytes:
        """Handle one encoded message and return the encoded reply. It never raises: an error is a reply, `ErrorReply`."""
        try:
            message = decode_message(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            # Constructors check no types: the sender has put into it what does not belong there.
            return _refused(NotEncodableError(f"message for {self.name}", str(error)))
        about = type(message).__name__
        try:
            return encode(await self._handlers[type(message)](message))
        except RaygroveError as error:
            return _refused(error)
        except BaseException as error:
            # The border of the actor: a defect in one message must reach its sender and may not stop the others.
            if is_cancellation(error):
                raise
            logger.exception("%s failed on %s", self.name, about)
            return _refused(RaygroveError(f"{self.name} failed on {about}: {code_of(error)}: {error_text(error)}"))


def _refused(error: RaygroveError) -> bytes:
    name, args = name_and_args(error)
    try:
        return encode(ErrorReply(error=name, args=args))
    except NotEncodableError:
        # Somebody gave it facts that cannot travel; its sentence can.
        return encode(ErrorReply(error=RaygroveError.__name__, args=[f"{name}: {error_text(error)}"]))
