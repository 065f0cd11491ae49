"""The requests of a process to one other process that have no reply."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

from actors.interfaces.transport import EarlyReply
from runtime.cluster.transport.direct.errors import ConnectionLostError, HandlerFailedError, Loss


class Call:
    """One request, and the wait for its reply. A context manager: what leaves it early needs no reply.

    Args:
        early: takes the replies before the last one, as far as they arrive.

    Attributes:
        number: 0 until the request is first written.
        future: of the reply, while it is waited for.
    """

    __slots__ = ("_abandon", "_submit", "early", "future", "number", "raw", "slot")

    def __init__(
        self,
        raw: bytes,
        slot: int,
        submit: Callable[[Call], asyncio.Future[bytes]],
        abandon: Callable[[Call], None],
        early: EarlyReply | None = None,
    ) -> None:
        self._submit = submit
        self._abandon = abandon
        self.early = early
        self.raw = raw
        self.slot = slot
        self.number = 0
        self.future: asyncio.Future[bytes] | None = None

    def __enter__(self) -> Call:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._abandon(self)

    async def reply(self) -> bytes:
        """Send the request, unless it was sent before, and wait for the reply.

        After a ConnectionLostError whose loss is not final it may be called again: the handler still runs once. After a
        cancellation it may not.

        Raises:
            ConnectionLostError: there is no connection to the process.
            HandlerFailedError: the handler has raised an error.
        """
        return await (self.future or self._submit(self))


class CallTable:
    """The requests that were written and have no reply, and the line of those that wait to be written.

    Attributes:
        replies: how many have come.

    Args:
        address: the peer's, for errors.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._sent: dict[int, Call] = {}
        self._line: deque[Call] = deque()
        self._last_number = 0
        self.replies = 0

    @property
    def sent(self) -> Iterable[Call]:
        """The requests that were written, in the order of their numbers."""
        return self._sent.values()

    @property
    def has_sent(self) -> bool:
        """True while a request that was written has no reply."""
        return bool(self._sent)

    @property
    def are_awaited(self) -> bool:
        """True while a caller waits. A caller that got a ConnectionLostError does not, until it asks again."""
        return bool(self._line) or any(call.future is not None for call in self.sent)

    def is_sent(self, call: Call) -> bool:
        """True when a request was written and its reply can still come."""
        return call.number in self._sent

    def queue(self, call: Call) -> None:
        """Let a request wait to be written."""
        self._line.append(call)

    def next_in_line(self) -> Call | None:
        """The request that is to be written next, out of those whose callers still wait."""
        while self._line:
            call = self._line.popleft()
            if call.future is not None and not call.future.done():
                return call
        return None

    def number(self, call: Call) -> None:
        """Give a request its number, as it is written for the first time."""
        self._last_number += 1
        call.number = self._last_number
        self._sent[call.number] = call

    def drop(self, call: Call) -> bool:
        """Forget a request. True when its reply could still have come."""
        return self._sent.pop(call.number, None) is not None

    def replied_early(self, number: int, reply: bytes) -> None:
        """The handler of a request has sent a reply, and goes on."""
        call = self._sent.get(number)
        if call is not None and call.early is not None and call.future is not None:
            # Code of its own, whose errors are not the connection's.
            self._loop.call_soon(call.early, reply)

    def replied(self, number: int, reply: bytes) -> None:
        """The handler of a request has returned."""
        future = self._ended(number)
        if future is not None:
            future.set_result(reply)

    def failed(self, number: int, error: HandlerFailedError) -> None:
        """The handler of a request has raised an error."""
        future = self._ended(number)
        if future is not None:
            future.set_exception(error)
            # Asked for, since nothing may wait for it at the moment: asyncio would complain.
            future.exception()

    def _ended(self, number: int) -> asyncio.Future[bytes] | None:
        self.replies += 1
        call = self._sent.pop(number, None)
        if call is None:
            return None
        if call.future is None:
            call.future = self._loop.create_future()
        return None if call.future.done() else call.future

    def tell(self, loss: Loss, details: str = "") -> None:
        """Have all callers know of a loss. If it is final, forget their requests."""
        line, self._line = self._line, deque()
        for call in (*self.sent, *line):
            self.tell_one(call, loss, details)
        if loss.is_final:
            self._sent.clear()

    def forget_sent(self) -> None:
        """The peer has forgotten the requests that were written."""
        sent, self._sent = self._sent, {}
        for call in sent.values():
            self.tell_one(call, Loss.FORGOTTEN)

    def tell_one(self, call: Call, loss: Loss, details: str = "") -> None:
        """Have one caller know of a loss."""
        future, call.future = call.future, None
        if future is not None and not future.done():
            future.set_exception(ConnectionLostError(self._address, loss, bool(call.number), details))
