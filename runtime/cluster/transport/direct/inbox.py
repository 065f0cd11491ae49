"""What a server keeps of one client, whichever connection that comes by.

Rules of this file:
1. A request runs once. One that comes again finds the handler at work, or the reply.
2. The last reply is kept until the client acknowledges it, or tells after a reconnection that it does not wait for it.
3. A reply before the last is written at most once: not without a connection, nor if it needs more than one frame.
4. Handlers are never cancelled: what they return after the client is gone is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from actors.errors.user_code import error_text, is_cancellation
from actors.interfaces.transport import EARLY_REPLY
from runtime.cluster.transport.direct.wire.frames import MAX_PAYLOAD, Kind, pack_failure

Handler = Callable[[bytes, int], Awaitable[bytes]]
"""Takes a request and its slot, and returns the reply."""


class ReplyWriter(Protocol):
    """The connection that a client has."""

    def write_reply(self, kind: Kind, number: int, payload: bytes) -> None:
        """Write the reply to a request."""
        ...

    def handler_ended(self) -> None:
        """One request less is at work."""
        ...

    def replaced(self) -> None:
        """The client has come by another connection."""
        ...


class Inbox:
    """The requests of one client, and the replies that it has not acknowledged.

    Attributes:
        attempt: of the newest connection, see Claim.
        connection: that connection, or None.
        kept_bytes: of all replies that are kept.

    Args:
        max_message_bytes: a longer reply becomes a failure.
        departed: holds the inbox while handlers of a client that is gone are at work.
    """

    def __init__(self, handler: Handler, max_message_bytes: int, departed: set[Inbox]) -> None:
        self._handler = handler
        self._max_message_bytes = max_message_bytes
        self._departed = departed
        self._running: dict[int, asyncio.Task[None]] = {}
        self._replies: dict[int, tuple[Kind, bytes]] = {}
        self._unwanted: set[int] = set()
        self._wanted: set[int] = set()
        self._is_forgotten = False
        self.attempt = 0
        self.connection: ReplyWriter | None = None
        self.kept_bytes = 0

    @property
    def running(self) -> int:
        """Requests whose handlers are at work."""
        return len(self._running)

    def attach(self, connection: ReplyWriter, attempt: int) -> None:
        """The client has come, maybe again."""
        before, self.connection = self.connection, connection
        self.attempt = attempt
        self._wanted.clear()
        if before is not None:
            before.replaced()

    def request(self, number: int, raw: bytes, slot: int) -> None:
        """Run a request, or find it."""
        if number in self._running:
            return
        kept = self._replies.get(number)
        if kept is None:
            self._running[number] = asyncio.create_task(self._run(number, raw, slot))
        elif self.connection is not None:
            self.connection.write_reply(kept[0], number, kept[1])

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """The client needs no reply to these."""
        for number in numbers:
            kept = self._replies.pop(number, None)
            if kept is not None:
                self.kept_bytes -= len(kept[1])
            elif number in self._running:
                self._unwanted.add(number)

    def want(self, numbers: Iterable[int], *, is_last: bool) -> None:
        """The client, after a reconnection, waits for replies to these; with the last of them all others are dropped."""
        self._wanted.update(numbers)
        if is_last:
            self.acknowledge([number for number in (*self._replies, *self._running) if number not in self._wanted])
            self._wanted.clear()

    def forget(self) -> None:
        """The client will not come again."""
        self._is_forgotten = True
        if self._running:
            # The event loop itself holds tasks by weak references.
            self._departed.add(self)
        self._replies.clear()
        self.kept_bytes = 0

    async def _run(self, number: int, raw: bytes, slot: int) -> None:
        kind = Kind.REPLY
        EARLY_REPLY.set(partial(self._reply_early, number))
        try:
            payload = await self._handler(raw, slot)
            if len(payload) > self._max_message_bytes:
                raise ValueError(f"the reply has {len(payload)} bytes, and {self._max_message_bytes} are allowed")
        except BaseException as error:
            # A handler runs code of users. Only the end of the event loop cancels this task.
            if is_cancellation(error):
                del self._running[number]
                raise
            kind, payload = Kind.FAILED, pack_failure(type(error).__name__, error_text(error))
        del self._running[number]
        self._reply(kind, number, payload)

    def _reply_early(self, number: int, payload: bytes) -> None:
        if self.connection is not None and number not in self._unwanted and len(payload) <= MAX_PAYLOAD:
            self.connection.write_reply(Kind.EARLY, number, payload)

    def _reply(self, kind: Kind, number: int, payload: bytes) -> None:
        if self._is_forgotten:
            if not self._running:
                self._departed.discard(self)
            return
        is_wanted = number not in self._unwanted
        if is_wanted:
            self._replies[number] = kind, payload
            self.kept_bytes += len(payload)
        else:
            self._unwanted.remove(number)
        if self.connection is not None:
            if is_wanted:
                self.connection.write_reply(kind, number, payload)
            self.connection.handler_ended()
