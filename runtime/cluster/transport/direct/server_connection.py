"""A server's connection with one client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.cluster.transport.direct.errors import ProtocolError
from runtime.cluster.transport.direct.inbox import Inbox
from runtime.cluster.transport.direct.options import DirectOptions
from runtime.cluster.transport.direct.wire.connection import FrameConnection
from runtime.cluster.transport.direct.wire.frames import HEADER, MAX_PAYLOAD, SLOT, Kind, read_numbers
from runtime.cluster.transport.direct.wire.outbox import BEAT


class ServerConnection(FrameConnection):
    """Hands the frames of a client to its inbox, and writes the replies.

    Args:
        ended: called when the connection is gone; True: the client has said that it will not come again.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        address: str,
        inbox: Inbox,
        options: DirectOptions,
        ended: Callable[[ServerConnection, bool], None],
    ) -> None:
        super().__init__(transport, address, options.max_message_bytes)
        self.inbox = inbox
        self._options = options
        self._ended = ended
        self._has_left = False
        self._has_acknowledged = False
        self._bytes_at_beat = (0, 0)
        self._timer = asyncio.get_running_loop().call_later(options.beat_s, self._beat)

    def frame_received(self, kind: int, number: int, data: bytes, start: int, stop: int) -> None:
        """Take a frame of the client."""
        if kind == Kind.REQUEST:
            (slot,) = SLOT.unpack_from(data[start : start + SLOT.size])
            self.inbox.request(number, self.whole(number, data[start + SLOT.size : stop]), slot)
            self._check_reading()
        elif kind == Kind.ACK:
            self._has_acknowledged = True
            self.inbox.acknowledge(read_numbers(data[start:stop]))
        elif kind == Kind.WANTED:
            self.inbox.want(read_numbers(data[start:stop]), is_last=number == 0)
        elif kind == Kind.BYE:
            self._has_left = True
            self.abort()
        elif kind != Kind.BEAT:
            raise ProtocolError(f"a client sends no frames of kind {kind}")

    def write_reply(self, kind: Kind, number: int, payload: bytes) -> None:
        """Write the reply to a request."""
        if len(payload) > MAX_PAYLOAD:
            self.outbox.put_long(kind, number, b"", payload)
        else:
            self.outbox.put(HEADER.pack(len(payload), kind, number) + payload)
        self._check_reading()

    def handler_ended(self) -> None:
        """One request less is at work."""
        if self.is_held:
            self._check_reading()

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        super().resume_writing()
        self._check_reading()

    def replaced(self) -> None:
        """The client has come by another connection."""
        self.abort()

    def _check_reading(self) -> None:
        unwritten_bytes, running = self.outbox.unwritten_bytes, self.inbox.running
        if self.is_held:
            if unwritten_bytes <= self._options.max_unwritten_bytes // 2 and running < self._options.max_running:
                self.release()
        elif unwritten_bytes > self._options.max_unwritten_bytes or running >= self._options.max_running:
            self.hold()

    def _beat(self) -> None:
        read_bytes, written_bytes = self._bytes_at_beat
        is_waited_for = self.inbox.running or self.has_pieces or self.read_bytes != read_bytes
        if is_waited_for and self.outbox.written_bytes == written_bytes:
            self.outbox.put(BEAT)
        self._check_acknowledgements()
        self._bytes_at_beat = (self.read_bytes, self.outbox.written_bytes)
        if not self.is_closed:
            self._timer = asyncio.get_running_loop().call_later(self._options.beat_s, self._beat)

    def _check_acknowledgements(self) -> None:
        unacknowledged_bytes = self.inbox.kept_bytes - self.outbox.unwritten_bytes
        if unacknowledged_bytes > self._options.max_unwritten_bytes and not self._has_acknowledged and not self.is_held:
            self.fail(f"it has read {unacknowledged_bytes} bytes of replies and acknowledges none")
        self._has_acknowledged = False

    def connection_closed(self) -> None:
        """The client is gone, or has to come again."""
        self._timer.cancel()
        self._ended(self, self._has_left)
