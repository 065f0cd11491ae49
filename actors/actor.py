"""What all actors share: messages in, replies out, errors that reach the sender, and locks that keep the order of messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from actors.errors import NotEncodableError, RaygroveError
from actors.errors.tracebacks import foreign_traceback
from actors.errors.user_code import code_of, error_text, is_cancellation
from actors.interfaces.transport import EARLY_REPLY
from actors.messages.codec import encode
from actors.messages.protocol.base import ErrorReply, Message, Request, decoder
from actors.messages.protocol.statistics import ConnectionFigures

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Message]]
"""Handles one message and returns the reply. `Any`: each handler takes a message class of its own."""

Handlers = Mapping[type[Request[Any]], Handler]
"""The handlers of messages by their classes."""


class HasHandlers(Protocol):
    """A service of an actor: a feature with handlers of its own."""

    def handlers(self) -> Handlers:
        """The messages that it takes, each of them with its handler."""
        ...


def with_services(core: Handlers, services: Iterable[HasHandlers]) -> Handlers:
    """The handlers of an actor and of its services. Raises TypeError when a message has two."""
    handlers = dict(core)
    for service in services:
        for kind, handler in service.handlers().items():
            if kind in handlers:
                raise TypeError(f"{kind.__name__} has two handlers: {type(service).__name__} has the second one")
            handlers[kind] = handler
    return handlers


class Actor:
    """A plain class that handles messages by their type. An engine runs it; a test may just call it.

    Attributes:
        connections: the figures of its process, for its statistics. An engine with several processes sets it.
        standby_pids: the processes that stand by for the loss of this one, as they have told its host.
    """

    standby_pids: Sequence[int] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections: Callable[[], ConnectionFigures | None] = lambda: None
        self._handlers = self.handlers()
        self._decode = decoder(tuple(self._handlers)).decode

    def handlers(self) -> Handlers:
        """The messages that the actor takes, each with its handler."""
        raise NotImplementedError

    async def receive(self, raw: bytes) -> bytes:
        """Handle one encoded message and return the encoded reply. Errors do not leave it: they are replied as `ErrorReply`."""
        try:
            message = self._decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            # Constructors check no types, so a field may have a value of another one.
            return _error_reply(NotEncodableError(f"message for {self.name}", str(error)))
        try:
            return encode(await self._handlers[type(message)](message))
        except BaseException as error:
            return self._failure(message, error)

    def _failure(self, message: Message, error: BaseException) -> bytes:
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


def reply_early(message: Message) -> None:
    """Send a reply to the message that is being handled, before the last one, which says how it ends."""
    reply = EARLY_REPLY.get()
    if reply is not None:
        reply(encode(message))


def _error_reply(error: RaygroveError) -> bytes:
    name, traceback = type(error).__name__, foreign_traceback(error)
    try:
        return encode(ErrorReply(error=name, args=error.args, traceback=traceback))
    except NotEncodableError:
        # Its arguments cannot be encoded; its text can.
        return encode(ErrorReply(error=RaygroveError.__name__, args=[f"{name}: {error_text(error)}"], traceback=traceback))


K = TypeVar("K", bound=Hashable)


class _Lock(asyncio.Lock):
    """A lock that is there as long as something holds it or waits for it: `users` of them."""

    users = 0


class KeyedLocks(Generic[K]):
    """One lock for each key, given in the order in which it was asked for. A lock that is free is given without a pause."""

    def __init__(self) -> None:
        self._held: dict[K, _Lock] = {}

    def is_held(self, key: K) -> bool:
        """True while something holds the lock of a key."""
        return key in self._held

    def locked(self, key: K) -> Locked[K]:
        """An async context manager, inside whose block there is one at a time per key."""
        return Locked(self._held, key)


class Locked(Generic[K]):
    """One use of a lock. A class, since each turn enters some: an async generator costs the event loop four times as much."""

    __slots__ = ("_held", "_key")

    def __init__(self, held: dict[K, _Lock], key: K) -> None:
        self._held = held
        self._key = key

    async def __aenter__(self) -> None:
        """Wait for the lock."""
        lock = self._held.setdefault(self._key, _Lock())
        lock.users += 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave(lock)
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the lock to the next one."""
        lock = self._held[self._key]
        lock.release()
        self._leave(lock)

    def _leave(self, lock: _Lock) -> None:
        lock.users -= 1
        if not lock.users:
            del self._held[self._key]
