"""What all actors share: messages in, replies out, and errors that reach the one who asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from actors.errors import NotEncodableError, RaygroveError, name_and_args, rebuild
from actors.foreign import code_of, is_cancellation, told
from actors.interfaces.transport import Link
from actors.messages.protocol import AnyMessage, Message, Refused
from actors.messages.wire import encode
from actors.rules.limits import check_request

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
Handler = Callable[[Any], Awaitable[Message]]

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(AnyMessage)


class Actor:
    """A plain class that handles messages by their type. An engine makes it live; a test may just call it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._handlers = self.handlers()

    def handlers(self) -> Mapping[type[Message], Handler]:
        """The messages that the actor takes, each with the method that handles it."""
        raise NotImplementedError

    async def receive(self, raw: bytes) -> bytes:
        """Handle one encoded message and return the encoded reply. It never raises: an error is a reply, `Refused`."""
        try:
            message = _decoder.decode(raw)
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
            return _refused(RaygroveError(f"{self.name} failed on {about}: {code_of(error)}: {told(error)}"))


def _refused(error: RaygroveError) -> bytes:
    name, args = name_and_args(error)
    try:
        return encode(Refused(error=name, args=args))
    except NotEncodableError:
        # Somebody gave it facts that cannot travel; its sentence can.
        return encode(Refused(error=RaygroveError.__name__, args=[f"{name}: {told(error)}"]))


class Ref:
    """A client of an actor: one method per message, and errors raised where they were caused.

    Args:
        link: the way to it.
        max_bytes: of a message; None: as many as it has. A driver's may be of any size, those of actors were measured before.
    """

    def __init__(self, link: Link, max_bytes: int | None = None) -> None:
        self._link = link
        self._max_bytes = max_bytes

    async def _ask(self, message: Message, reply_type: type[M], *, once: bool = False) -> M:
        raw = encode(message)
        if self._max_bytes is not None:
            check_request(len(raw), self._max_bytes)
        reply = _decoder.decode(await self._link.send(raw, once=once))
        if isinstance(reply, Refused):
            raise rebuild(reply.error, reply.args)
        if not isinstance(reply, reply_type):
            raise RaygroveError(f"asked with {type(message).__name__}, got {type(reply).__name__} back")
        return reply
