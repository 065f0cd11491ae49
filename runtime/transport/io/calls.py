"""The requests of a process to one other process that have no reply, and why. Links turn the errors into those of actors."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from types import TracebackType
from typing import Protocol

from actors.interfaces.transport import EarlyReply
from runtime.transport.protocol.client import ClientEvent, ClientRequest, ClientSide, Replied, RepliedEarly


class Loss(Enum):
    """What is known of a connection that is lost."""

    REFUSED = "nothing listens there"
    UNREACHABLE = "it does not answer"
    NOT_ADMITTED = "it closes connections before both sides are proven: are the secret and TLS the same?"
    CUT = "connections to it break at once"
    OTHER_BOOT = "another process listens there"
    OTHER_VERSION = "it speaks another version of the protocol"
    FORGOTTEN = "it has forgotten this client, which was away for too long"
    CLOSED = "the connection was closed on this side"

    @property
    def is_final(self) -> bool:
        """True when a request that was sent will never get its reply, however often the connection is made again."""
        return self in (Loss.OTHER_BOOT, Loss.OTHER_VERSION, Loss.FORGOTTEN, Loss.CLOSED)


class ConnectionLostError(ConnectionError):
    """A request has no reply, because its peer cannot be reached.

    Attributes:
        address: the peer's.
        loss: what is known.
        was_sent: the request may have reached its handler. False: it certainly has not.
        details: more about the loss, or "".
    """

    def __init__(self, address: str, loss: Loss, was_sent: bool, details: str = "") -> None:
        super().__init__(address, loss, was_sent, details)
        self.address = address
        self.loss = loss
        self.was_sent = was_sent
        self.details = details

    def __str__(self) -> str:
        return f"connection to {self.address}: {self.loss.value}{f' ({self.details})' if self.details else ''}"


class CallOwner(Protocol):
    """What requests are sent by."""

    def submit(self, call: ChannelCall) -> asyncio.Future[bytes]:
        """Begin to wait for the reply to a request, which is written now, when there is room, or was before."""
        ...

    def abandon(self, call: ChannelCall) -> None:
        """The reply to a request is not needed."""
        ...


class ChannelCall(ClientRequest, eq=False):
    """One request, and the wait for its reply. A context manager: what leaves it early needs no reply.

    Attributes:
        early: takes the replies before the last one, as far as they arrive.
        future: of the reply, while it is waited for.
    """

    owner: CallOwner
    early: EarlyReply | None = None
    future: asyncio.Future[bytes] | None = None

    def __enter__(self) -> ChannelCall:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self.owner.abandon(self)

    def reply(self) -> asyncio.Future[bytes]:
        """Send the request, unless it was sent before. Returns the future of the reply.

        After a ConnectionLostError whose loss is not final it may be called again: the handler still runs once. After a
        cancellation it may not.

        Raises:
            ConnectionLostError: there is no connection to the process.
            HandlerFailedError: the handler has raised an error.
        """
        return self.future or self.owner.submit(self)


class CallTable:
    """Tells callers what becomes of their requests, and has the line of those that wait to be written.

    Args:
        address: the peer's, for errors.
        side: knows the requests that were written and have no reply.
    """

    def __init__(self, address: str, side: ClientSide[ChannelCall]) -> None:
        self._address = address
        self._side = side
        self._loop = asyncio.get_running_loop()
        self._line: deque[ChannelCall] = deque()

    @property
    def are_awaited(self) -> bool:
        """True while a caller waits. A caller that got a ConnectionLostError does not, until it asks again."""
        return bool(self._line) or any(call.future is not None for call in self._side.sent)

    def queue(self, call: ChannelCall) -> None:
        """Let a request wait to be written."""
        self._line.append(call)

    def next_in_line(self) -> ChannelCall | None:
        """The request that is to be written next, out of those whose callers still wait."""
        while self._line:
            call = self._line.popleft()
            if call.future is not None and not call.future.done():
                return call
        return None

    def happened(self, event: ClientEvent[ChannelCall]) -> None:
        """Tell a caller what its server says."""
        call = event.request
        if isinstance(event, RepliedEarly):
            if call.early is not None and call.future is not None:
                # Code of its own, whose errors are not the connection's.
                self._loop.call_soon(call.early, event.payload)
            return
        future = call.future
        if future is None:
            # Its caller has heard of a loss, and may ask again.
            future = call.future = self._loop.create_future()
        elif future.done():
            return
        if isinstance(event, Replied):
            future.set_result(event.payload)
        else:
            future.set_exception(event.error)
            # Asked for, since nothing may wait for it at the moment: asyncio would complain.
            future.exception()

    def tell(self, loss: Loss, details: str = "") -> None:
        """Have all callers know of a loss."""
        line, self._line = self._line, deque()
        for call in (*self._side.sent, *line):
            self.tell_one(call, loss, details)

    def tell_one(self, call: ChannelCall, loss: Loss, details: str = "") -> None:
        """Have one caller know of a loss."""
        future, call.future = call.future, None
        if future is not None and not future.done():
            future.set_exception(ConnectionLostError(self._address, loss, bool(call.number), details))
