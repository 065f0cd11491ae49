"""Both sides of the protocol by themselves: what repeats, overtakes and is forgotten on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.transport.options import DirectOptions
from runtime.transport.protocol.client import ClientEvent, ClientRequest, ClientSide, HandlerFailed, Replied, RepliedEarly
from runtime.transport.protocol.frames import MAX_PAYLOAD, ProtocolError
from runtime.transport.protocol.server import Left, RequestToRun, ServerEvent, ServerSide

MIB = 1024 * 1024
OPTIONS = DirectOptions()
LONG = bytes(range(256)) * (3 * MAX_PAYLOAD // 256)


class Pair:
    """A client and a server, and the bytes between them.

    Attributes:
        up, down: what is on the way to the server and to the client, as it was written.
    """

    def __init__(self, options: DirectOptions = OPTIONS) -> None:
        self.options = options
        self.client: ClientSide[ClientRequest] = ClientSide(options.max_message_bytes)
        self.server = ServerSide(1, options)
        self.up: list[bytes] = []
        self.down: list[bytes] = []
        self.connect()

    def connect(self) -> list[ClientRequest]:
        """Cut what there is, and connect again. Returns the requests that are lost."""
        self.client.disconnected()
        self.server.connected(self.server.attempt + 1)
        self.up.clear()
        self.down.clear()
        return self.client.connected(self.server.memory)

    def send(self, raw: bytes, slot: int = 0) -> ClientRequest:
        """Have the client send a request."""
        request = ClientRequest(raw, slot, 0)
        self.client.send(request)
        return request

    def restart(self) -> None:
        """Have the server forget its client."""
        self.server = ServerSide(self.server.memory + 1, self.options)

    def write(self) -> None:
        """Put all that the two have to write on its way."""
        while parts := self.client.outbox.take_frames():
            self.up.append(b"".join(parts))
        while parts := self.server.outbox.take_frames():
            self.down.append(b"".join(parts))

    def serve(self, writes: int | None = None) -> list[ServerEvent]:
        """Have the server read so many writes of the client, or all."""
        self.write()
        taken, self.up[:writes] = self.up[:writes], []
        self.server.receive_data(b"".join(taken))
        return list(iter(self.server.next_event, None))

    def read(self) -> list[ClientEvent[ClientRequest]]:
        """Have the client read all."""
        self.write()
        self.client.receive_data(b"".join(self.down))
        self.down.clear()
        return list(iter(self.client.next_event, None))

    def tick(self) -> None:
        """Let time pass on both sides, and nothing be lost."""
        assert self.client.tick()
        assert self.serve() == []
        self.server.tick()


def test_requests_and_replies_of_any_length() -> None:
    pair = Pair()
    first, second, third = (pair.send(raw, slot) for raw, slot in ((b"a", 0), (LONG, 7), (b"", 2**32 - 1)))
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert pair.serve() == [RequestToRun(1, 0, b"a"), RequestToRun(3, 2**32 - 1, b""), RequestToRun(2, 7, LONG)]
    pair.server.reply(2, LONG[1:])
    pair.server.reply_early(1, b"soon")
    pair.server.failed(1, "ValueError", "no")
    pair.server.reply(3, b"")
    early, failed, empty, whole = pair.read()
    assert isinstance(failed, HandlerFailed)
    assert (early, empty, whole) == (RepliedEarly(first, b"soon"), Replied(third, b""), Replied(second, LONG[1:]))
    assert (failed.request, failed.error.kind, failed.error.text) == (first, "ValueError", "no")
    pair.tick()
    assert pair.server.kept_bytes == pair.server.running == 0
    assert not pair.client.sent


def test_the_copy_of_a_long_request_whose_reply_is_acknowledged_is_not_run() -> None:
    pair = Pair()
    request = pair.send(LONG)
    assert pair.serve() == [RequestToRun(request.number, 0, LONG)]
    pair.connect()
    # The list of those that wait, and two of three pieces of the copy.
    assert pair.serve(3) == []
    pair.server.reply(request.number, b"done")
    assert pair.read() == [Replied(request, b"done")]
    later, pair.up = pair.up, []
    pair.tick()
    assert pair.server.kept_bytes == 0
    pair.up = later
    assert pair.serve() == []


def test_the_copy_of_a_long_request_that_was_given_up_is_not_run() -> None:
    pair = Pair()
    request = pair.send(LONG)
    pair.client.abandon(request)
    assert pair.client.tick()
    # What tells so is short, and overtakes the pieces.
    assert pair.serve() == []
    assert pair.server.running == pair.server.kept_bytes == 0


def test_a_long_reply_is_written_once_on_each_connection() -> None:
    pair = Pair()
    request = pair.send(LONG)
    assert pair.serve() == [RequestToRun(request.number, 0, LONG)]
    for _ in range(2):
        pair.connect()
        assert pair.serve(1) == []
        if not pair.server.kept_bytes:
            pair.server.reply(request.number, LONG[::-1])
        # The rest of the copy comes while the reply is on its way.
        assert pair.serve() == []
        pair.write()
        whole = sum(map(len, pair.down))
        assert len(LONG) < whole < len(LONG) + 1000
    assert pair.read() == [Replied(request, LONG[::-1])]


def test_a_reply_before_the_client_has_told_what_waits_is_written_once() -> None:
    pair = Pair()
    request = pair.send(LONG)
    assert pair.serve() == [RequestToRun(request.number, 0, LONG)]
    pair.connect()
    pair.server.reply(request.number, LONG)
    assert pair.serve() == []
    assert pair.read() == [Replied(request, LONG)]
    assert pair.client.replies == 1


def test_a_client_whose_handshake_was_given_up_learns_that_it_was_forgotten() -> None:
    pair = Pair()
    request = pair.send(b"once")
    assert pair.serve() == [RequestToRun(request.number, 0, b"once")]
    pair.restart()
    # The server has admitted the client, which did not wait for its answer. It comes again, and is known.
    pair.server.connected(1)
    assert pair.connect() == [request]
    assert pair.serve() == []
    assert not pair.client.sent
    assert pair.send(b"another").number == request.number + 1
    assert pair.serve() == [RequestToRun(request.number + 1, 0, b"another")]


def test_a_client_that_was_not_forgotten_has_lost_nothing() -> None:
    pair = Pair()
    pair.send(b"once")
    assert pair.connect() == []
    assert pair.serve() == [RequestToRun(1, 0, b"once")]


def test_a_reply_of_any_length_may_take_any_time() -> None:
    pair = Pair(replace(OPTIONS, max_unwritten_bytes=MIB))
    request = pair.send(b"all")
    assert pair.serve() == [RequestToRun(request.number, 0, b"all")]
    pair.server.reply(request.number, bytes(5 * MIB))
    # All of it is handed over, and waits in the buffers of a slow connection.
    pair.write()
    for _ in range(10):
        pair.server.tick()
    assert pair.read() == [Replied(request, bytes(5 * MIB))]
    pair.tick()
    assert pair.server.kept_bytes == 0


@pytest.mark.parametrize("size", [MIB // 8, MIB], ids=["short", "long"])
def test_a_client_that_reads_and_acknowledges_nothing_is_found_out(size: int) -> None:
    pair = Pair(replace(OPTIONS, max_unwritten_bytes=2 * MIB))
    for _ in range(5 * MIB // size):
        pair.send(b".")
    for event in pair.serve():
        assert isinstance(event, RequestToRun)
        pair.server.reply(event.number, bytes(size))
        pair.write()
    with pytest.raises(ProtocolError, match="acknowledges none"):
        pair.server.tick()


def test_a_client_that_has_left_wants_nothing() -> None:
    pair = Pair()
    pair.send(b"hi")
    pair.client.leave()
    assert pair.serve() == [RequestToRun(1, 0, b"hi"), Left()]
    pair.server.forget_client()
    pair.server.reply(1, b"late")
    assert pair.server.kept_bytes == pair.server.outbox.unwritten_bytes == 0


def test_a_server_that_is_silent_is_taken_for_lost_only_while_a_reply_is_waited_for() -> None:
    pair = Pair()
    assert all(pair.client.tick() for _ in range(100))
    pair.send(b"hi")
    ticks = 1
    while pair.client.tick():
        ticks += 1
    pair.connect()
    assert pair.serve() == [RequestToRun(1, 0, b"hi")]
    for _ in range(10 * ticks):
        pair.server.tick()
        assert pair.read() == []
        assert pair.client.tick()
