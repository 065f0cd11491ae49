"""A client's side of the protocol: its requests to one process, whichever connections carry them.

Rules of this file:
1. A request is kept from the moment in which it is first written until it has its reply, or its caller gives it up. Each new
   connection begins with the list of those that are kept, and then carries them once more, in their order.
2. A server that has forgotten this client says so by another memory. What may have run there is then lost, and never sent again.
3. Each request is acknowledged once at most on a connection: when its reply comes, or when its caller gives it up.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

import msgspec

from runtime.transport.protocol.frames import (
    HEADER,
    MAX_PAYLOAD,
    FrameQueue,
    FrameReader,
    HandlerFailedError,
    Kind,
    ProtocolError,
    ack_frames,
    frame,
    read_failure,
    wanted_frames,
)

SILENT_TICKS = 5
"""Ticks without a byte after which a server is taken for lost. A client that was stopped itself counts one for all that time."""

ACK_REPLIES = 64
"""Replies after which the client acknowledges them all: one frame for many. Fewer wait for the next tick."""

ACK_BYTES = 64 * 1024
"""Bytes of replies after which the client acknowledges them."""

MAX_WAITING_BYTES = 256 * 1024
"""Bytes of short requests that may wait to be written. Long ones are never copied, so they may all wait."""

# Plain numbers: Python 3.11 looks a member of an enumeration up by a function of its own.
_REQUEST, _REPLY, _FAILED, _EARLY, _BEAT = map(int, (Kind.REQUEST, Kind.REPLY, Kind.FAILED, Kind.EARLY, Kind.BEAT))


class ClientRequest(msgspec.Struct, eq=False):
    """A request, for the actor in a slot.

    Attributes:
        number: 0 until it is first written.
    """

    raw: bytes
    slot: int
    number: int


R = TypeVar("R", bound=ClientRequest)


class Replied(msgspec.Struct, Generic[R], gc=False):
    """The handler of a request has returned."""

    request: R
    payload: bytes


class RepliedEarly(msgspec.Struct, Generic[R], gc=False):
    """The handler of a request has sent a reply, and goes on."""

    request: R
    payload: bytes


class HandlerFailed(msgspec.Struct, Generic[R]):
    """The handler of a request has raised an error."""

    request: R
    error: HandlerFailedError


ClientEvent = Replied[R] | RepliedEarly[R] | HandlerFailed[R]


class ClientSide(Generic[R]):
    """The requests to one process that have no reply.

    Attributes:
        outbox: of the present connection.
        replies: how many have come.

    Args:
        max_message_bytes: the longest reply.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._memory: int | None = None
        self._sent: dict[int, R] = {}
        self._last_number = 0
        self._is_connected = False
        self._reader = FrameReader(max_message_bytes)
        self._unacknowledged: list[int] = []
        self._unacknowledged_bytes = 0
        self._silent_ticks = 0
        self._read_bytes_at_tick = 0
        self.outbox = FrameQueue()
        self.replies = 0

    @property
    def sent(self) -> Collection[R]:
        """The requests that were written and have no reply, in their order."""
        return self._sent.values()

    @property
    def has_room(self) -> bool:
        """True while a request can be written without filling memory."""
        return self._is_connected and self.outbox.short_bytes <= MAX_WAITING_BYTES

    def is_sent(self, request: R) -> bool:
        """True when a request was written and its reply can still come."""
        return request.number in self._sent

    def connected(self, memory: int) -> list[R]:
        """Begin a connection that is proven. Returns the requests that the server has forgotten.

        Args:
            memory: see Welcome.
        """
        lost = list(self._sent.values()) if memory != self._memory else []
        if lost:
            self._sent.clear()
        self._memory = memory
        self._is_connected = True
        self._reader = FrameReader(self._max_message_bytes)
        self._unacknowledged.clear()
        self._unacknowledged_bytes = 0
        self._silent_ticks = self._read_bytes_at_tick = 0
        self.outbox = FrameQueue()
        self.outbox.put_frames(wanted_frames(list(self._sent)))
        for request in self._sent.values():
            self.send(request)
        return lost

    def disconnected(self) -> None:
        """The connection is gone."""
        self._is_connected = False
        self.outbox.drop_frames()

    def send(self, request: R) -> None:
        """Write a request, while there is room. It is numbered when it is first written."""
        if not request.number:
            request.number = self._last_number = self._last_number + 1
            self._sent[request.number] = request
        raw = request.raw
        size = len(raw)
        if size > MAX_PAYLOAD:
            self.outbox.put_long(_REQUEST, request.number, raw, request.slot)
        else:
            self.outbox.put_frames(HEADER.pack(size, _REQUEST, request.number, request.slot) + raw)

    def abandon(self, request: R) -> bool:
        """The reply to a request is not needed. Returns whether it could still have come."""
        is_sent = self._sent.pop(request.number, None) is not None
        if is_sent and self._is_connected:
            self._acknowledge(request.number, 0)
        return is_sent

    def abandon_all(self) -> None:
        """No reply is needed, and none can come: the process is gone."""
        self._sent.clear()

    def leave(self) -> None:
        """Say that this client will not come again."""
        self.outbox.put_frames(frame(Kind.BYE))

    def receive_data(self, data: bytes) -> None:
        """Take what was read."""
        self._reader.receive_data(data)

    def next_event(self) -> ClientEvent[R] | None:
        """The server's next event about a request that has no reply; None until more is read. Raises ProtocolError."""
        while (found := self._reader.next_frame()) is not None:
            kind, number, _, payload = found
            if kind == _REPLY:
                if (request := self._answered(number, payload)) is not None:
                    return Replied(request, payload)
            elif kind == _EARLY:
                if (request := self._sent.get(number)) is not None:
                    return RepliedEarly(request, payload)
            elif kind == _FAILED:
                error = read_failure(payload)
                if (request := self._answered(number, payload)) is not None:
                    return HandlerFailed(request, error)
            elif kind != _BEAT:
                raise ProtocolError(f"a server sends no frames of kind {kind}")
        return None

    def _answered(self, number: int, payload: bytes) -> R | None:
        self.replies += 1
        request = self._sent.pop(number, None)
        if request is not None:
            self._acknowledge(number, len(payload))
        return request

    def _acknowledge(self, number: int, size: int) -> None:
        self._unacknowledged.append(number)
        self._unacknowledged_bytes = waiting_bytes = self._unacknowledged_bytes + size
        if waiting_bytes >= ACK_BYTES or len(self._unacknowledged) >= ACK_REPLIES:
            self._write_acknowledgements()

    def _write_acknowledgements(self) -> None:
        self.outbox.put_frames(ack_frames(self._unacknowledged))
        self._unacknowledged.clear()
        self._unacknowledged_bytes = 0

    def tick(self) -> bool:
        """Called in equal times while there is a connection. False: the server is silent for too long and counts as lost."""
        if self._unacknowledged:
            self._write_acknowledgements()
        if self._reader.read_bytes != self._read_bytes_at_tick or not self._sent:
            self._silent_ticks = 0
            self._read_bytes_at_tick = self._reader.read_bytes
        else:
            self._silent_ticks += 1
        return self._silent_ticks <= SILENT_TICKS
