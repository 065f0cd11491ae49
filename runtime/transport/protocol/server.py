"""A server's side of the protocol: what it knows of one client, whichever connections that comes by.

Rules of this file:
1. A request runs once. A copy of one that is at work, has its reply, or is over does nothing.
2. The last reply is kept until the client acknowledges it, or begins a connection and does not wait for it.
3. A reply is written once on each connection: when the handler returns, or else when a connection begins.
4. A reply before the last is written at most once: not without a connection, nor if it needs more than one frame.
5. An acknowledgement may overtake a long request. That is then not run when its last piece comes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from runtime.transport.options import DirectOptions
from runtime.transport.protocol.frames import (
    BEAT,
    HEADER,
    MAX_PAYLOAD,
    FrameQueue,
    FrameReader,
    Kind,
    LongMessage,
    ProtocolError,
    pack_failure,
    read_numbers,
)
from runtime.transport.protocol.handshake import VERSION, Claim, HandshakeReply

# Plain numbers: Python 3.11 looks a member of an enumeration up by a function of its own.
_REQUEST, _REPLY, _FAILED, _EARLY = map(int, (Kind.REQUEST, Kind.REPLY, Kind.FAILED, Kind.EARLY))


class RequestToRun(msgspec.Struct, gc=False):
    """A request is to be run. `reply` or `failed` follows."""

    number: int
    slot: int
    raw: bytes


class Left(msgspec.Struct):
    """The client will not come again."""


ServerEvent = RequestToRun | Left


class _Reply(msgspec.Struct, gc=False):
    """A reply that is kept.

    Attributes:
        end: the short frames that its connection had written with this one, in bytes.
        long: where it is written in pieces.
    """

    kind: int
    payload: bytes
    end: int | None = None
    long: LongMessage | None = None


def judge(claim: Claim, boot: bytes, known: ServerSide | None) -> HandshakeReply:
    """Decide about a client that is proven.

    Args:
        boot: of this process.
        known: what it knows of this client.
    """
    if claim.version != VERSION:
        return HandshakeReply.OTHER_VERSION
    if claim.boot != boot:
        return HandshakeReply.OTHER_BOOT
    return HandshakeReply.ADMITTED if known is None or claim.attempt > known.attempt else HandshakeReply.OVERTAKEN


class ServerSide:
    """The requests of one client, and the replies that it has not acknowledged.

    Attributes:
        memory: tells this from what the process may have known of the client before and has forgotten.
        attempt: of the newest connection, see Claim.
        outbox: of that connection.
        kept_bytes: of all replies that are kept.
    """

    def __init__(self, memory: int, options: DirectOptions) -> None:
        self._max_message_bytes = options.max_message_bytes
        self._max_unwritten_bytes = options.max_unwritten_bytes
        self._max_running = options.max_running
        self._running: set[int] = set()
        self._unwanted: set[int] = set()
        self._replies: dict[int, _Reply] = {}
        self._wanted: set[int] = set()
        self._copies: set[int] = set()
        self._settled: set[int] = set()
        self._has_begun = False
        self._is_forgotten = False
        self._has_acknowledged = False
        self._is_waiting = False
        self._bytes_at_tick = (0, 0)
        self._reader = FrameReader(options.max_message_bytes)
        self.memory = memory
        self.attempt = 0
        self.outbox = FrameQueue()
        self.kept_bytes = 0

    @property
    def running(self) -> int:
        """Requests that are at work."""
        return len(self._running)

    @property
    def must_wait(self) -> bool:
        """True while nothing more is to be read: too much is at work, or waits to be written."""
        limit = self._max_unwritten_bytes // 2 if self._is_waiting else self._max_unwritten_bytes
        outbox = self.outbox
        self._is_waiting = outbox.short_bytes + outbox.long_bytes > limit or len(self._running) >= self._max_running
        return self._is_waiting

    def connected(self, attempt: int) -> None:
        """The client has come, maybe again."""
        self.disconnected()
        self.attempt = attempt
        self._bytes_at_tick = (0, 0)
        self.outbox = FrameQueue()
        self._is_waiting = False

    def disconnected(self) -> None:
        """There is no connection, and what of it is not taken never will be."""
        self._reader = FrameReader(self._max_message_bytes)
        self.outbox.drop_frames()
        self._has_begun = False
        self._wanted.clear()
        self._copies.clear()
        self._settled.clear()

    def forget_client(self) -> None:
        """The client will not come again: what its handlers return is dropped."""
        self.disconnected()
        self._is_forgotten = True
        self._replies.clear()
        self._unwanted.clear()
        self.kept_bytes = 0

    def receive_data(self, data: bytes) -> None:
        """Take what was read."""
        self._reader.receive_data(data)

    def next_event(self) -> ServerEvent | None:
        """The client's next event; None until more is read, and while the client has to wait. Raises ProtocolError."""
        while not self.must_wait and (found := self._reader.next_frame()) is not None:
            kind, number, slot, payload = found
            if kind == _REQUEST:
                if self._is_new(number):
                    self._running.add(number)
                    return RequestToRun(number, slot, payload)
            elif kind == Kind.ACK:
                self._has_acknowledged = True
                self._acknowledge(read_numbers(payload))
            elif kind == Kind.WANTED:
                self._want(read_numbers(payload), is_last=number == 0)
            elif kind == Kind.BYE:
                return Left()
            elif kind != Kind.BEAT:
                raise ProtocolError(f"a client sends no frames of kind {kind}")
        return None

    def _is_new(self, number: int) -> bool:
        if not self._has_begun:
            raise ProtocolError("it sends a request before it has told which of them wait")
        self._copies.discard(number)
        if number in self._settled:
            self._settled.remove(number)
            return False
        if number in self._replies:
            raise ProtocolError(f"it sends request {number} twice")
        return number not in self._running

    def _acknowledge(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            kept = self._replies.pop(number, None)
            if kept is not None:
                self.kept_bytes -= len(kept.payload)
            if number in self._running:
                self._unwanted.add(number)
            elif kept is None or number in self._copies:
                # The request is on its way, in pieces that this has overtaken, or as a copy.
                self._settled.add(number)

    def _want(self, numbers: Iterable[int], *, is_last: bool) -> None:
        if self._has_begun:
            raise ProtocolError("it tells twice which requests wait")
        self._wanted.update(numbers)
        if not is_last:
            return
        wanted, self._wanted = self._wanted, set()
        self._has_begun = True
        for number in [number for number in self._replies if number not in wanted]:
            self.kept_bytes -= len(self._replies.pop(number).payload)
        self._unwanted.update(self._running - wanted)
        self._copies = wanted
        for number, kept in self._replies.items():
            self._write(number, kept)

    def reply(self, number: int, payload: bytes) -> None:
        """The handler of a request has returned."""
        if len(payload) > self._max_message_bytes:
            text = f"the reply has {len(payload)} bytes, and {self._max_message_bytes} are allowed"
            self.failed(number, "ValueError", text)
        else:
            self._end(number, _Reply(_REPLY, payload))

    def failed(self, number: int, kind: str, text: str) -> None:
        """The handler of a request has raised an error: the name of its class, and its message."""
        self._end(number, _Reply(_FAILED, pack_failure(kind, text)))

    def ended(self, number: int) -> None:
        """The handler of a request has ended with the process: there is no reply."""
        self._running.discard(number)

    def _end(self, number: int, reply: _Reply) -> None:
        self._running.discard(number)
        if self._is_forgotten:
            return
        if number in self._unwanted:
            self._unwanted.remove(number)
            if number in self._copies:
                self._settled.add(number)
            return
        self._replies[number] = reply
        self.kept_bytes += len(reply.payload)
        if self._has_begun:
            self._write(number, reply)

    def _write(self, number: int, reply: _Reply) -> None:
        if number in self._copies:
            self._settled.add(number)
        outbox, payload = self.outbox, reply.payload
        if len(payload) > MAX_PAYLOAD:
            reply.long = outbox.put_long(reply.kind, number, payload)
        else:
            outbox.put_frames(HEADER.pack(len(payload), reply.kind, number, 0) + payload)
            reply.end = outbox.short_written_bytes + outbox.short_bytes

    def reply_early(self, number: int, payload: bytes) -> None:
        """The handler of a request goes on, and sends this before."""
        is_wanted = self._has_begun and number in self._running and number not in self._unwanted
        if is_wanted and len(payload) <= MAX_PAYLOAD:
            self.outbox.put_frames(HEADER.pack(len(payload), _EARLY, number, 0) + payload)

    def tick(self) -> None:
        """Called in equal times while there is a connection. Raises ProtocolError when the client acknowledges nothing."""
        read_bytes, written_bytes = self._bytes_at_tick
        is_waited_for = self._running or self._reader.has_pieces or self._reader.read_bytes != read_bytes
        if is_waited_for and self.outbox.written_bytes == written_bytes:
            self.outbox.put_frames(BEAT)
        self._bytes_at_tick = (self._reader.read_bytes, self.outbox.written_bytes)
        has_acknowledged, self._has_acknowledged = self._has_acknowledged or self.must_wait, False
        if self._has_begun and not has_acknowledged and self.kept_bytes > self._max_unwritten_bytes:
            self._check_acknowledgements()

    def _check_acknowledgements(self) -> None:
        """A reply counts as read when so much was written after it that no buffer on the way can hold it."""
        may_be_unread = self._max_unwritten_bytes
        for kept in self._replies.values():
            if kept.long is not None:
                after_bytes = self.outbox.written_bytes - kept.long.end if kept.long.is_written else 0
            else:
                after_bytes = self.outbox.short_written_bytes - (kept.end or 0)
            if after_bytes > may_be_unread:
                raise ProtocolError(f"it has read {after_bytes} bytes after a reply and acknowledges none")
