"""The client side of an actor: one method per message, replies decoded, errors raised where they were caused."""

from __future__ import annotations

from typing import TypeVar

from actors.errors import RaygroveError, rebuild
from actors.interfaces.transport import Link
from actors.messages.codec import encode
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import ErrorReply, Message
from actors.rules.checks.sizes import check_request

M = TypeVar("M", bound=Message)


class Ref:
    """A client of an actor: one method per message, and errors raised where they were caused.

    Args:
        link: the way to it.
        max_bytes: of a message; None: as many as it has. A driver's may be of any size, those of actors were measured before.
    """

    def __init__(self, link: Link, max_bytes: int | None = None) -> None:
        self._link = link
        self._max_bytes = max_bytes

    async def _ask(self, message: Message, reply_type: type[M] | tuple[type[M], ...], *, once: bool = False) -> M:
        raw = encode(message)
        if self._max_bytes is not None:
            check_request(len(raw), self._max_bytes)
        reply = decode_message(await self._link.send(raw, once=once))
        if isinstance(reply, ErrorReply):
            raise rebuild(reply.error, reply.args)
        if not isinstance(reply, reply_type):
            raise RaygroveError(f"asked with {type(message).__name__}, got {type(reply).__name__} back")
        return reply
