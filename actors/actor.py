"""What all actors share: messages in, replies out, and errors that reach the sender."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from actors.errors import NotEncodableError, RaygroveError, name_and_args
from actors.errors.tracebacks import foreign_traceback
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.interfaces.transport import EARLY_REPLY, EarlyReply, Replies
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply, Message
from actors.messages.protocol.request import Request, decoder
from actors.messages.protocol.statistics import ConnectionFigures

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Message]]
"""Handles one message and returns the reply. `Any`: each handler takes a message class of its own."""

Handlers = Mapping[type[Request[Any]], Handler]
"""The handlers of messages by their classes."""

QuickHandler = Callable[[Any, "OwedReply"], bool]
"""Handles one message if nothing has to be waited for but the disk, and gives the reply when it is true. False: nothing is
done, and the message is one for its `Handler`."""


_UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What bytes raise that hold no message."""


class Actor:
    """A plain class that handles messages by their type. An engine runs it; a test may just call it.

    Attributes:
        connections: the figures of its process, for its statistics. An engine with several processes sets it.
        tasks: handle messages that were begun without one.
        standby_pids: the processes that stand by for the loss of this one, as they have told its host.
    """

    standby_pids: Sequence[int] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections: Callable[[], ConnectionFigures | None] = lambda: None
        self.tasks: set[asyncio.Task[None]] = set()
        self._handlers = self.handlers()
        self._quick_handlers = self.quick_handlers()
        self._decode = decoder(tuple({**self._handlers, **self._quick_handlers})).decode

    def handlers(self) -> Handlers:
        """The messages that the actor takes, each with its handler."""
        raise NotImplementedError

    def quick_handlers(self) -> Mapping[type[Request[Any]], QuickHandler]:
        """Handlers of frequent messages that need no task, beside those of `handlers`."""
        return {}

    def receive(self, raw: bytes) -> Coroutine[Any, Any, bytes]:
        """Handle one encoded message and return the encoded reply. Errors do not leave it: they are replied as `ErrorReply`."""
        if self._quick_handlers:
            return self._received(raw)
        # Nothing but a handler replies, so that no object has to take replies for a task.
        try:
            return self._handled(self._decode(raw))
        except _UNREADABLE as error:
            return _replied(self._unreadable(error))

    async def _received(self, raw: bytes) -> bytes:
        replies = _AwaitedReply(EARLY_REPLY.get())
        rest = self.begin(raw, replies)
        return await (replies.last() if rest is None else rest)

    def begin(self, raw: bytes, replies: Replies) -> Coroutine[Any, Any, bytes] | None:
        """The same without a task, which costs more than most messages, if that can be: then nothing is returned.

        Args:
            replies: get the replies then, also early ones.

        Returns:
            What handles the message, in a task, and returns the reply.
        """
        try:
            message = self._decode(raw)
        except _UNREADABLE as error:
            replies.reply(self._unreadable(error))
            return None
        handler = self._quick_handlers.get(type(message))
        if handler is None:
            return self._handled(message)
        owed = OwedReply(self, message, replies)
        try:
            return None if handler(message, owed) else self._handled(message)
        except BaseException as error:
            owed.fail(error)
            return None

    def _unreadable(self, error: Exception) -> bytes:
        """The reply to bytes that hold no message: constructors check no types, so a field may have a value of another type."""
        return _error_reply(NotEncodableError(f"message for {self.name}", str(error)))

    async def _handled(self, message: Request[Any]) -> bytes:
        try:
            return encode(await self._handlers[type(message)](message))
        except BaseException as error:
            return self.failure(message, error)

    def failure(self, message: Message, error: BaseException) -> bytes:
        """The reply to a message whose handler has raised. It raises what cancels the task."""
        if isinstance(error, RaygroveError):
            return _error_reply(error)
        # The border of the actor: a defect in one message must reach its sender, and must not stop the other messages.
        if is_cancellation(error):
            raise error
        kind = type(message).__name__
        logger.error("%s failed on %s", self.name, kind, exc_info=error)
        reason = RaygroveError(f"{self.name} failed on {kind}: {code_of(error)}: {error_text(error)}")
        return _error_reply(reason.with_traceback(error.__traceback__))


class OwedReply(msgspec.Struct, eq=False):
    """The reply to a message that is handled without a task. One of `give`, `fail` and `take_task` is called, once."""

    actor: Actor
    message: Message
    replies: Replies

    def give(self, reply: Message) -> None:
        """Send it."""
        self.replies.reply(encode(reply))

    def fail(self, error: BaseException) -> None:
        """Send an error in its place."""
        self.replies.reply(self.actor.failure(self.message, error))

    def take_task(self, handling: Awaitable[Message]) -> None:
        """Have a task handle the message after all, since something has to be waited for."""
        tasks = self.actor.tasks
        task = asyncio.get_running_loop().create_task(self._replied_by(handling))
        # The event loop itself holds tasks by weak references.
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _replied_by(self, handling: Awaitable[Message]) -> None:
        EARLY_REPLY.set(self.replies.reply_early)
        try:
            self.give(await handling)
        except BaseException as error:
            self.fail(error)


class _AwaitedReply(msgspec.Struct, eq=False):
    """Takes the replies for a task that waits for the last one, if the message needs none itself.

    Attributes:
        early: takes early ones. That of this task: what replies may run in the context of another message.
    """

    early: EarlyReply | None
    raw: bytes | None = None
    waiting: asyncio.Future[bytes] | None = None

    async def last(self) -> bytes:
        if self.raw is not None:
            return self.raw
        self.waiting = asyncio.get_running_loop().create_future()
        return await self.waiting

    def reply(self, raw: bytes) -> None:
        self.raw = raw
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(raw)

    def reply_early(self, raw: bytes) -> None:
        if self.early is not None:
            self.early(raw)


def reply_early(message: Message) -> None:
    """Send a reply to the message that is being handled, before the last one, which says how it ends."""
    reply = EARLY_REPLY.get()
    if reply is not None:
        reply(encode(message))


async def _replied(raw: bytes) -> bytes:
    return raw


def _error_reply(error: RaygroveError) -> bytes:
    name, args = name_and_args(error)
    traceback = foreign_traceback(error)
    try:
        return encode(ErrorReply(error=name, args=args, traceback=traceback))
    except NotEncodableError:
        # Its arguments cannot be encoded; its text can.
        return encode(ErrorReply(error=RaygroveError.__name__, args=[f"{name}: {error_text(error)}"], traceback=traceback))
