"""The client side of an actor: one method per message, replies decoded, errors raised in the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from actors.errors import RaygroveError, rebuild
from actors.interfaces.transport import Link
from actors.messages.codec import encode
from actors.messages.protocol.any_message import decode_message
from actors.messages.protocol.base import ErrorReply, Message
from actors.rules.checks.sizes import too_large_request

T = TypeVar("T")

M = TypeVar("M", bound=Message)


def shielded(task: asyncio.Task[T]) -> asyncio.Future[T]:
    """A future with the outcome of a task. When the future is cancelled, the task goes on.

    What `asyncio.shield` does, in a third of its calls: every message of the local engine is waited for so.
    """
    waiting: asyncio.Future[T] = task.get_loop().create_future()
    task.add_done_callback(partial(_hand_on, waiting))
    return waiting


def _hand_on(waiting: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        waiting.cancel()
        return
    # Asked for in any case, so that asyncio does not report the error of a task for which nothing waits any more.
    error = task.exception()
    if waiting.done():
        return
    if error is None:
        waiting.set_result(task.result())
    else:
        waiting.set_exception(error)


class _Replies(msgspec.Struct, eq=False):
    """The replies to a message that may have several. The last one mostly says once more what the one before has said.

    Attributes:
        early: takes those before the last one.
        raw, message: the newest of these.
    """

    early: Callable[[Message], None]
    raw: bytes = b""
    message: Message | None = None

    def take_early(self, raw: bytes) -> None:
        """Take one that comes before the last one."""
        self.raw, self.message = raw, decode_message(raw)
        self.early(self.message)

    def last(self, raw: bytes) -> Message:
        """The last one."""
        return self.message if self.message is not None and raw == self.raw else decode_message(raw)


class Ref:
    """A client of an actor. Subclasses have one method per message; each raises the error that the actor replied.

    Args:
        link: the link to the actor.
        max_bytes: how large a message may be; None: any size. Only drivers need a limit: what actors send was measured before.
    """

    def __init__(self, link: Link, max_bytes: int | None = None) -> None:
        self._link = link
        self._max_bytes = max_bytes

    async def _ask(
        self,
        message: Message,
        reply_type: type[M] | tuple[type[M], ...],
        *,
        once: bool = False,
        early: Callable[[Message], None] | None = None,
    ) -> M:
        """Send a message and return the reply.

        Args:
            reply_type: the class of the reply, or the classes that it may have.
            once: see Link.send.
            early: takes replies that come before the last one: see Link.send.

        Raises:
            TooLargeError: the message has more than `max_bytes`.
            ActorLostError, ActorRestartsError: see Link.send.
            RaygroveError: the error that the actor replied, or a reply of another class.
        """
        raw = encode(message)
        if self._max_bytes is not None and len(raw) > self._max_bytes:
            raise too_large_request(len(raw), self._max_bytes)
        if early is None:
            reply = decode_message(await self._link.send(raw, once=once))
        else:
            replies = _Replies(early)
            reply = replies.last(await self._link.send(raw, once=once, early=replies.take_early))
        # By the class itself: for one that is not that of a struct `isinstance` asks its metaclass.
        if type(reply) is ErrorReply:
            raise rebuild(reply.error, reply.args, reply.traceback)
        if not isinstance(reply, reply_type):
            raise RaygroveError(f"asked with {type(message).__name__}, got {type(reply).__name__} back")
        return reply
