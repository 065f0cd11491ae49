"""The client side of an actor: it is asked with a request, decodes the reply, and raises the error in its caller."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, TypeVar

import msgspec

from actors.errors import ActorRestartsError, RaygroveError, rebuild
from actors.interfaces.transport import EarlyReply, Link
from actors.messages.codec import encode
from actors.messages.protocol.base import Message, error_in
from actors.messages.protocol.lifecycle import Stop
from actors.messages.protocol.request import Request, decoder, replies_to
from actors.messages.protocol.statistics import GetStatistics, Statistics
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


class Ref:
    """A client of an actor. Each request raises the error that the actor replied.

    Args:
        max_bytes: how large a message may be; None: any size. Only drivers need a limit: what actors send was measured before.
    """

    def __init__(self, link: Link, max_bytes: int | None = None) -> None:
        self._link = link
        self._max_bytes = max_bytes

    async def ask(self, request: Request[M]) -> M:
        """Send a request and return the reply.

        Raises:
            TooLargeError: the request has more than `max_bytes`.
            ActorLostError: see Link.send.
            RaygroveError: the error that the actor replied, or a reply of another class.
        """
        kind = type(request)
        if not kind.is_sent_once:
            return await self._ask(request, replies_to(kind))
        try:
            return await self._ask(request, replies_to(kind), once=True)
        except ActorRestartsError:
            # It may have been done before the actor was lost.
            return await self._ask(msgspec.structs.replace(request, again=True), replies_to(kind))

    async def statistics(self) -> Statistics:
        """The figures of the actor."""
        return await self.ask(GetStatistics())

    async def stop(self) -> None:
        """Have the actor end its work: see its handler of Stop."""
        await self.ask(Stop())

    async def _ask(
        self, request: Request[Any], replies: tuple[type[M], ...], *, once: bool = False, early: EarlyReply | None = None
    ) -> M:
        """The same with less than the request says of itself, or more.

        Args:
            replies: the classes that the reply may have.
            once: see Link.send.
            early: takes replies that come before the last one, encoded: see Link.send.

        Raises:
            ActorRestartsError: see Link.send.
        """
        raw = encode(request)
        if self._max_bytes is not None and len(raw) > self._max_bytes:
            raise too_large_request(len(raw), self._max_bytes)
        reply = await self._link.send(raw, once=once, early=early)
        error = error_in(reply)
        if error is not None:
            raise rebuild(error.error, error.args, error.traceback)
        try:
            return decoder(replies).decode(reply)  # type: ignore[no-any-return]
        except msgspec.DecodeError as unread:
            raise RaygroveError(f"asked with {type(request).__name__}, got another reply back: {unread}") from None
