"""Connections until both sides are proven. They read the handshake and nothing else, and then hand their transport over."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol

from runtime.transport.io.connection import Connection, as_transport
from runtime.transport.protocol.frames import ProtocolError
from runtime.transport.protocol.handshake import NONCE_BYTES, Claim, ClientHandshake, HandshakeReply, ServerHandshake, Welcome


class Gate(Protocol):
    """What a server's connections ask before they are proven."""

    def arrived(self, connection: UnprovenConnection) -> None:
        """A connection has to prove itself."""
        ...

    def left(self, connection: UnprovenConnection) -> None:
        """It is proven, or gone."""
        ...

    def refused(self, connection: UnprovenConnection, reason: str) -> None:
        """It could not prove itself."""
        ...

    def judge(self, claim: Claim) -> Welcome:
        """Decide about a client that is proven."""
        ...

    def admit(self, claim: Claim, transport: asyncio.Transport, address: str) -> Connection:
        """Make the connection of a client that was admitted."""
        ...


class UnprovenConnection(asyncio.Protocol):
    """The server's side.

    Args:
        timeout_s: how long the client may take.
    """

    def __init__(self, gate: Gate, secret: bytes, timeout_s: float) -> None:
        self._gate = gate
        self._handshake = ServerHandshake(secret, secrets.token_bytes(NONCE_BYTES))
        self._timeout_s = timeout_s
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the client's proof."""
        self._transport = as_transport(transport)
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._refuse, "it took too long")
        self._gate.arrived(self)

    @property
    def address(self) -> str:
        """The peer's, without its port; all peers on the Unix socket have the same."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else "this node"

    def data_received(self, data: bytes) -> None:
        """Take what was read."""
        if self._is_over:
            return
        try:
            answer = self._handshake.receive_data(data)
        except ProtocolError as error:
            self._refuse(str(error))
            return
        if answer:
            self._transport.write(answer)
        if self._handshake.claim is not None:
            self._answer(self._handshake.claim)

    def _answer(self, claim: Claim) -> None:
        self._finish()
        welcome = self._gate.judge(claim)
        self._transport.write(self._handshake.welcome(welcome))
        if welcome.admission == HandshakeReply.ADMITTED:
            self._transport.set_protocol(self._gate.admit(claim, self._transport, self.address))
        else:
            self._transport.close()

    def _refuse(self, reason: str) -> None:
        if not self._is_over:
            self._gate.refused(self, reason)
            self.abort()

    def abort(self) -> None:
        """Close the connection without a word."""
        self._finish()
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport when the client has gone."""
        self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            self._gate.left(self)


class ProvingConnection(asyncio.Protocol):
    """The client's side.

    Attributes:
        welcome: done when the server is proven. It raises ProtocolError, or ConnectionError when the server closed before.

    Args:
        take_over: called with the transport and the server's answer as soon as that is read. It sets the protocol that goes on
            and returns it, or None to close the connection.
    """

    def __init__(self, handshake: ClientHandshake, take_over: Callable[[asyncio.Transport, Welcome], Connection | None]) -> None:
        self._handshake = handshake
        self._take_over = take_over
        self._transport: asyncio.Transport | None = None
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()

    @property
    def was_connected(self) -> bool:
        """True when there has been a connection, proven or not."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = as_transport(transport)
        if self.welcome.done():
            self._transport.abort()
        else:
            self._transport.write(self._handshake.hello())

    def data_received(self, data: bytes) -> None:
        """Take what was read; what follows the handshake is for the protocol that goes on."""
        transport = self._transport
        if self.welcome.done() or transport is None:
            return
        try:
            answer = self._handshake.receive_data(data)
        except ProtocolError as error:
            self.welcome.set_exception(error)
            transport.abort()
            return
        if answer:
            transport.write(answer)
        welcome = self._handshake.welcome
        if welcome is not None:
            self.welcome.set_result(welcome)
            connection = self._take_over(transport, welcome)
            if connection is None:
                transport.abort()
            elif self._handshake.rest:
                connection.data_received(self._handshake.rest)

    def give_up(self) -> None:
        """Close the connection, if the server is not proven by now."""
        # A wait that is cancelled has cancelled the future, too.
        is_over = self.welcome.done() and not self.welcome.cancelled()
        if is_over:
            # Asked for, so that asyncio does not complain of an error that came when the wait was over.
            self.welcome.exception()
            return
        self.welcome.cancel()
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport when the server has gone."""
        if not self.welcome.done():
            self.welcome.set_exception(ConnectionError("closed before both sides were proven"))
