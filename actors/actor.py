"""What all actors share: messages in, replies out, and errors that reach the one who asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from actors.errors import NotEncodableError, RaygroveError, name_and_args, rebuild
from actors.interfaces.transport import Link
from actors.messages.protocol import AnyMessage, Message, Refused
from actors.messages.wire import encode

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
        about = "a message that it cannot read"
        try:
            message = _decoder.decode(raw)
            about = type(message).__name__
            return encode(await self._handlers[type(message)](message))
        except RaygroveError as error:
            return _refused(error)
        except Exception as error:
            # The border of the actor: a defect in one message must reach its sender and may not stop the others.
            logger.exception("%s failed on %s", self.name, about)
            return _refused(RaygroveError(f"{self.name} failed on {about}: {type(error).__name__}: {error}"))


def is_being_cancelled() -> bool:
    """True in a task that somebody cancels; False when only what it awaits was cancelled."""
    this = asyncio.current_task()
    return this is not None and this.cancelling() > 0


def _refused(error: RaygroveError) -> bytes:
    name, args = name_and_args(error)
    try:
        return encode(Refused(error=name, args=args))
    except NotEncodableError:
        # Somebody gave it facts that cannot travel; its sentence can.
        return encode(Refused(error=RaygroveError.__name__, args=[f"{name}: {error}"]))


class Ref:
    """A client of an actor: one method per message, and errors raised where they were caused."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def _ask(self, message: Message, reply_type: type[M], *, once: bool = False) -> M:
        reply = _decoder.decode(await self._link.send(encode(message), once=once))
        if isinstance(reply, Refused):
            raise rebuild(reply.error, reply.args)
        if not isinstance(reply, reply_type):
            raise RaygroveError(f"asked with {type(message).__name__}, got {type(reply).__name__} back")
        return reply
