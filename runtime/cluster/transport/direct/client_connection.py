"""A client's connection with one server."""

from __future__ import annotations

import asyncio
from typing import Protocol

from runtime.cluster.transport.direct.calls import Call, CallTable
from runtime.cluster.transport.direct.errors import ProtocolError
from runtime.cluster.transport.direct.options import DirectOptions
from runtime.cluster.transport.direct.wire.connection import FrameConnection
from runtime.cluster.transport.direct.wire.frames import (
    MAX_PAYLOAD,
    REQUEST_HEADER,
    SLOT,
    Kind,
    ack_frames,
    frame,
    read_failure,
    wanted_frames,
)
from runtime.cluster.transport.direct.wire.outbox import HIGH_WATER

SILENT_TICKS = 5
"""So many times in `lost_s` a connection looks whether anything was read. A client that was stopped itself counts it once."""

ACK_REPLIES = 64
"""Replies after which the client acknowledges them all: one frame for many. Fewer wait for the next look at the connection."""

ACK_BYTES = 64 * 1024
"""Bytes of replies after which the client acknowledges them."""

_MAX_SHORT = MAX_PAYLOAD - SLOT.size


class Owner(Protocol):
    """What a connection belongs to."""

    def has_room(self) -> None:
        """Requests can be written again without filling memory."""
        ...

    def lost(self, connection: ClientConnection) -> None:
        """The connection is gone."""
        ...


class ClientConnection(FrameConnection):
    """Writes requests, and reads and acknowledges replies.

    Args:
        calls: gets the replies.
    """

    def __init__(
        self, transport: asyncio.Transport, address: str, calls: CallTable, owner: Owner, options: DirectOptions
    ) -> None:
        super().__init__(transport, address, options.max_message_bytes)
        self._calls = calls
        self._owner = owner
        self._unacknowledged: list[int] = []
        self._unacknowledged_bytes = 0
        self._linger_s = options.connect_s
        self._tick_s = options.lost_s / SILENT_TICKS
        self._silent_ticks = 0
        self._read_bytes_at_tick = 0
        self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    @property
    def is_full(self) -> bool:
        """True while short requests would wait here for the peer to read. Long ones are never copied, so they may wait."""
        return self.outbox.short_bytes > HIGH_WATER

    def write_request(self, call: Call) -> None:
        """Write a request."""
        raw = call.raw
        if len(raw) > _MAX_SHORT:
            self.outbox.put_long(Kind.REQUEST, call.number, SLOT.pack(call.slot), raw)
        else:
            self.outbox.put(REQUEST_HEADER.pack(len(raw) + SLOT.size, Kind.REQUEST, call.number, call.slot) + raw)

    def write_wanted(self, numbers: list[int]) -> None:
        """Tell the server, after a reconnection, which requests wait for replies."""
        self.outbox.put(wanted_frames(numbers))

    def abandon(self, number: int) -> None:
        """Tell the server that the reply to a request is not needed."""
        self._acknowledge(number, 0)

    def leave(self) -> None:
        """Tell the server that this client will not come again, and end the connection."""
        self.close_written(frame(Kind.BYE, 0), self._linger_s)

    def frame_received(self, kind: int, number: int, data: bytes, start: int, stop: int) -> None:
        """Take a frame of the server."""
        if kind == Kind.REPLY:
            reply = self.whole(number, data[start:stop])
            self._acknowledge(number, len(reply))
            self._calls.replied(number, reply)
        elif kind == Kind.EARLY:
            self._calls.replied_early(number, data[start:stop])
        elif kind == Kind.FAILED:
            error = read_failure(self.whole(number, data[start:stop]))
            self._acknowledge(number, stop - start)
            self._calls.failed(number, error)
        elif kind != Kind.BEAT:
            raise ProtocolError(f"a server sends no frames of kind {kind}")

    def _acknowledge(self, number: int, size: int) -> None:
        self._unacknowledged.append(number)
        self._unacknowledged_bytes += size
        if len(self._unacknowledged) >= ACK_REPLIES or self._unacknowledged_bytes >= ACK_BYTES:
            self._write_acknowledgements()

    def _write_acknowledgements(self) -> None:
        self.outbox.put(ack_frames(self._unacknowledged))
        self._unacknowledged.clear()
        self._unacknowledged_bytes = 0

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        super().resume_writing()
        if not self.is_closed and not self.is_full:
            self._owner.has_room()

    def _tick(self) -> None:
        if self._unacknowledged:
            self._write_acknowledgements()
        if self.read_bytes != self._read_bytes_at_tick or not self._calls.has_sent:
            self._silent_ticks = 0
            self._read_bytes_at_tick = self.read_bytes
        else:
            self._silent_ticks += 1
        if self._silent_ticks > SILENT_TICKS:
            self.fail(f"it has sent nothing for {self._tick_s * SILENT_TICKS:.1f} s")
        if not self.is_closed:
            self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def connection_closed(self) -> None:
        """The server is gone, or has to be asked again."""
        self._timer.cancel()
        self._owner.lost(self)
