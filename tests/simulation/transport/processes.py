"""The processes of the simulation: what `runtime.transport.io` does around the two sides of the protocol, without a loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from runtime.transport.options import DirectOptions
from runtime.transport.protocol import server as server_module
from runtime.transport.protocol.client import ClientRequest, ClientSide, Replied, RepliedEarly
from runtime.transport.protocol.frames import ProtocolError
from runtime.transport.protocol.handshake import (
    BOOT_BYTES,
    CLIENT_BYTES,
    NONCE_BYTES,
    VERSION,
    Claim,
    ClientHandshake,
    HandshakeReply,
    ServerHandshake,
    Welcome,
)
from runtime.transport.protocol.server import RequestToRun, ServerSide

SECRET = b"the secret of the simulation"

IN_BUFFERS = 300
"""Bytes that one direction of a connection holds, as the kernel's buffers do."""

SMALL = DirectOptions(max_unwritten_bytes=1_000, max_running=20, max_message_bytes=10_000)


class Request(ClientRequest, eq=False):
    """What a client has asked for, and what became of it.

    Attributes:
        early: replies before the last that the handler has sent, and how many of them have come.
        reply: what the handler has returned; "failed:…" for an error.
        is_given_up: nothing waits for it.
        is_lost: the client was told that there will be no reply.
    """

    early: list[bytes] = msgspec.field(default_factory=list)
    early_come: int = 0
    reply: bytes | None = None
    is_given_up: bool = False
    is_lost: bool = False
    is_replied: bool = False


class ServedClient:
    """What a server has of one client."""

    def __init__(self, side: ServerSide) -> None:
        self.side = side
        self.wire: Wire | None = None
        self.running: dict[int, bytes] = {}


class ServerProcess:
    """A server, in its first life or a later one.

    Attributes:
        ran: the requests that this life has run, in their order, by client.

    Args:
        complain: takes what must not be.
    """

    def __init__(self, chance: random.Random, complain: Callable[[str], None]) -> None:
        self.boot = chance.randbytes(BOOT_BYTES)
        self.clients: dict[bytes, ServedClient] = {}
        self.ran: dict[bytes, list[bytes]] = {}
        self._chance = chance
        self._complain = complain
        self._unproven: dict[Wire, ServerHandshake] = {}
        self._proven: dict[Wire, bytes] = {}
        self._memories = 0

    @property
    def wires(self) -> list[Wire]:
        """The connections that it has not noticed to be gone."""
        return [*self._unproven, *self._proven]

    def accept(self, wire: Wire) -> None:
        self._unproven[wire] = ServerHandshake(SECRET, self._chance.randbytes(NONCE_BYTES))

    def read(self, wire: Wire, size: int) -> None:
        """Read from a connection, as far as the client need not wait."""
        client = self.clients[self._proven[wire]] if wire in self._proven else None
        if client is not None and client.side.must_wait:
            return
        data = wire.up.read(size)
        if data and client is None:
            self._shake_hands(wire, data)
        elif data and client is not None:
            client.side.receive_data(data)
            self.take_events(client)
        elif wire.up.is_drained:
            self.drop(wire)

    def _shake_hands(self, wire: Wire, data: bytes) -> None:
        handshake = self._unproven[wire]
        try:
            wire.down.write(handshake.receive_data(data))
        except ProtocolError:
            self.drop(wire)
            return
        claim = handshake.claim
        if claim is None:
            return
        known = self.clients.get(claim.client)
        admission = server_module.judge(claim, self.boot, known.side if known is not None else None)
        if admission != HandshakeReply.ADMITTED:
            wire.down.write(handshake.welcome(Welcome(admission)))
            self.drop(wire)
            return
        if known is not None and claim.attempt <= known.side.attempt:
            self._complain("an attempt that was overtaken is admitted")
        if known is None:
            self._memories += 1
            known = self.clients[claim.client] = ServedClient(ServerSide(self._memories, SMALL))
        wire.down.write(handshake.welcome(Welcome(admission, memory=known.side.memory)))
        if known.wire is not None:
            self.drop(known.wire)
        del self._unproven[wire]
        self._proven[wire] = claim.client
        known.wire = wire
        known.side.connected(claim.attempt)

    def admitted(self, wire: Wire) -> bool:
        """True when a connection is proven."""
        return wire in self._proven

    def drop(self, wire: Wire) -> None:
        """End a connection, or notice that it is gone."""
        wire.up.is_ended = wire.down.is_ended = True
        wire.up.on_the_way.clear()
        self._unproven.pop(wire, None)
        if (name := self._proven.pop(wire, None)) is not None:
            client = self.clients[name]
            client.wire = None
            client.side.disconnected()

    def take_events(self, client: ServedClient) -> None:
        """Begin what a client wants."""
        try:
            while (event := client.side.next_event()) is not None:
                assert isinstance(event, RequestToRun)
                self._run(client, event)
        except ProtocolError as error:
            self._complain(f"the server takes its client for a wrong one: {error}")

    def _run(self, client: ServedClient, request: RequestToRun) -> None:
        ran = self.ran.setdefault(next(name for name, each in self.clients.items() if each is client), [])
        if request.raw in ran:
            self._complain(f"{request.raw[:20]!r} runs twice")
        ran.append(request.raw)
        client.running[request.number] = request.raw

    def write(self, client: ServedClient) -> None:
        """Put what waits for a client on its way, as far as there is room."""
        while client.wire is not None and len(client.wire.down.on_the_way) < IN_BUFFERS:
            parts = client.side.outbox.take_frames()
            if not parts:
                return
            client.wire.down.write(b"".join(parts))

    def tick(self, client: ServedClient) -> None:
        try:
            client.side.tick()
        except ProtocolError as error:
            self._complain(f"the server takes its client for a wrong one: {error}")

    def forget(self, name: bytes) -> None:
        """Forget a client that was away for too long."""
        self.clients.pop(name).side.forget_client()


class ClientProcess:
    """A client of the server.

    Attributes:
        name: by which the server knows it.
        requests: those that were sent in this life of the server, by number.
        forgotten: how often it was told that the server has forgotten it.
    """

    def __init__(self, server: ServerProcess, chance: random.Random, complain: Callable[[str], None]) -> None:
        self._chance = chance
        self._complain = complain
        self.begin(server)

    def begin(self, server: ServerProcess) -> None:
        """Speak to a server that is another one than before."""
        self.server = server
        self.name = self._chance.randbytes(CLIENT_BYTES)
        self.side: ClientSide[Request] = ClientSide(SMALL.max_message_bytes)
        self.requests: dict[int, Request] = {}
        self.wire: Wire | None = None
        self.forgotten = 0
        self._attempts = 0
        self._handshake: ClientHandshake | None = None

    @property
    def is_proven(self) -> bool:
        """True while it has a connection on which requests travel."""
        return self.wire is not None and self._handshake is None

    def dial(self, server: ServerProcess) -> None:
        """Begin to make a connection to what listens now."""
        self._attempts += 1
        claim = Claim(VERSION, self.name, self._attempts, self.server.boot)
        self._handshake = ClientHandshake(SECRET, claim, self._chance.randbytes(NONCE_BYTES))
        self.wire = Wire()
        self.wire.up.write(self._handshake.hello())
        server.accept(self.wire)

    def hang_up(self) -> None:
        """End the connection, or give up to make it. What was written may still arrive."""
        if self.wire is not None:
            self.wire.up.is_ended = self.wire.down.is_ended = True
            self.wire.down.on_the_way.clear()
            self._lost()

    def _lost(self) -> None:
        if self.is_proven:
            self.side.disconnected()
        self.wire = self._handshake = None

    def send(self, request: Request) -> None:
        self.side.send(request)
        self.requests[request.number] = request

    def give_up(self, number: int) -> None:
        """Need no reply any more."""
        request = self.requests[number]
        request.is_given_up = True
        self.side.abandon(request)

    def read(self, size: int) -> bool:
        """Read from the connection. Returns False when the server is another one than before."""
        wire = self.wire
        if wire is None:
            return True
        data = wire.down.read(size)
        if not data:
            if wire.down.is_drained:
                self.hang_up()
            return True
        if self._handshake is None:
            self._take(data)
            return True
        wire.up.write(self._handshake.receive_data(data))
        welcome = self._handshake.welcome
        if welcome is None:
            return True
        if welcome.admission != HandshakeReply.ADMITTED:
            self.hang_up()
            return welcome.admission != HandshakeReply.OTHER_BOOT
        rest, self._handshake = self._handshake.rest, None
        lost = self.side.connected(welcome.memory)
        self.forgotten += bool(lost)
        for request in lost:
            request.is_lost = True
        if rest:
            self._take(rest)
        return True

    def _take(self, data: bytes) -> None:
        self.side.receive_data(data)
        try:
            while (event := self.side.next_event()) is not None:
                request = event.request
                if isinstance(event, RepliedEarly):
                    self._take_early(request, event.payload)
                    continue
                reply = event.payload if isinstance(event, Replied) else f"failed:{event.error.text}".encode()
                if request.is_replied or request.is_given_up:
                    self._complain(f"{request.raw[:20]!r} has a second reply, or one that nothing waits for")
                if reply != request.reply:
                    self._complain(f"the reply to {request.raw[:20]!r} is not what its handler has returned")
                request.is_replied = True
        except ProtocolError as error:
            self._complain(f"the client takes its server for a wrong one: {error}")

    def _take_early(self, request: Request, payload: bytes) -> None:
        if request.is_replied or payload not in request.early[request.early_come :]:
            self._complain(f"an early reply to {request.raw[:20]!r} comes twice, too late, or was never sent")
        else:
            request.early_come = request.early.index(payload) + 1

    def write(self) -> None:
        """Put what waits on its way, as far as there is room."""
        while self.is_proven and self.wire is not None and len(self.wire.up.on_the_way) < IN_BUFFERS:
            parts = self.side.outbox.take_frames()
            if not parts:
                return
            self.wire.up.write(b"".join(parts))


@dataclass
class Pipe:
    """One direction of a connection.

    Attributes:
        on_the_way: bytes that were written and not read.
        is_ended: nothing comes after them.
        written: all that was ever written.
    """

    on_the_way: bytearray = field(default_factory=bytearray)
    is_ended: bool = False
    written: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        """Put bytes on their way, unless the connection was cut."""
        if not self.is_ended:
            self.on_the_way += data
            self.written += data

    def read(self, size: int) -> bytes:
        """Take the next bytes, some or all of so many."""
        data = bytes(self.on_the_way[:size])
        del self.on_the_way[:size]
        return data

    def cut(self, chance: random.Random) -> None:
        """End at any byte of those on the way."""
        if self.on_the_way:
            del self.on_the_way[chance.randint(0, len(self.on_the_way)) :]
        self.is_ended = True

    @property
    def is_drained(self) -> bool:
        """True when its reader has to notice that it is ended."""
        return self.is_ended and not self.on_the_way


@dataclass(eq=False)
class Wire:
    """A connection.

    Attributes:
        up, down: to the server and to the client.
    """

    up: Pipe = field(default_factory=Pipe)
    down: Pipe = field(default_factory=Pipe)

    def cut(self, chance: random.Random) -> None:
        """Break it. Each side notices when it has read what still comes."""
        self.up.cut(chance)
        self.down.cut(chance)
