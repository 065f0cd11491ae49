"""The requests of a process to one other process that have no reply."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol

import msgspec

from actors.interfaces.transport import EarlyReply
from runtime.transport.io.errors import ConnectionLostError, Loss
from runtime.transport.protocol.client import ClientEvent, Replied, RepliedEarly


class CallOwner(Protocol):
    """What requests are sent by."""

    def submit(self, call: ChannelCall) -> asyncio.Future[bytes]:
        """Begin to wait for the reply to a request, which is written now, when there is room, or was before."""
        ...

    def abandon(self, call: ChannelCall) -> None:
        """The reply to a request is not needed."""
        ...


class ChannelCall(msgspec.Struct, eq=False):
    """One request, and the wait for its reply. A context manager: what leaves it early needs no reply.

    Attributes:
        owner: the channel.
        early: takes the replies before the last one, as far as they arrive.
        number: 0 until the request is first written.
        future: of the reply, while it is waited for.
    """

    raw: bytes
    slot: int
    owner: CallOwner
    early: EarlyReply | None = None
    number: int = 0
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
    """The calls whose requests were written and have no reply, and the line of those that wait to be written.

    Args:
        address: the peer's, for errors.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._sent: dict[int, ChannelCall] = {}
        self._line: deque[ChannelCall] = deque()

    @property
    def are_awaited(self) -> bool:
        """True while a caller waits. A caller that got a ConnectionLostError does not, until it asks again."""
        return bool(self._line) or any(call.future is not None for call in self._sent.values())

    def is_sent(self, call: ChannelCall) -> bool:
        """True when a request was written and its reply can still come."""
        return call.number in self._sent

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

    def add(self, call: ChannelCall, number: int) -> None:
        """A request was written for the first time."""
        call.number = number
        self._sent[number] = call

    def drop_call(self, call: ChannelCall) -> bool:
        """Forget a request. True when its reply could still have come."""
        return self._sent.pop(call.number, None) is not None

    def happened(self, event: ClientEvent) -> None:
        """Tell a caller what its server says."""
        if isinstance(event, RepliedEarly):
            call = self._sent.get(event.number)
            if call is not None and call.early is not None and call.future is not None:
                # Code of its own, whose errors are not the connection's.
                self._loop.call_soon(call.early, event.payload)
            return
        call = self._sent.pop(event.number)
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
        """Have all callers know of a loss. If it is final, forget their requests."""
        line, self._line = self._line, deque()
        for call in (*self._sent.values(), *line):
            self.tell_one(call, loss, details)
        if loss.is_final:
            self._sent.clear()

    def forget_calls(self, numbers: Iterable[int]) -> None:
        """The peer has forgotten these requests."""
        for number in numbers:
            self.tell_one(self._sent.pop(number), Loss.FORGOTTEN)

    def tell_one(self, call: ChannelCall, loss: Loss, details: str = "") -> None:
        """Have one caller know of a loss."""
        future, call.future = call.future, None
        if future is not None and not future.done():
            future.set_exception(ConnectionLostError(self._address, loss, bool(call.number), details))
