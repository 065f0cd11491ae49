"""Making a connection to an endpoint, until both sides are proven."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from ssl import SSLContext, SSLError

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.calls import Loss
from runtime.transport.io.connection import Connection
from runtime.transport.io.listening import keep_alive
from runtime.transport.io.proving import ProvingConnection
from runtime.transport.protocol.frames import ProtocolError
from runtime.transport.protocol.handshake import ClientHandshake, HandshakeReply, Welcome

TakeOver = Callable[[asyncio.Transport, Welcome], Connection]
"""Makes the connection that goes on and sets it as the transport's protocol."""


class DialError(Exception):
    """No connection could be made.

    Attributes:
        loss: why.
        details: more about it, or "".
    """

    def __init__(self, loss: Loss, details: str = "") -> None:
        super().__init__(loss, details)
        self.loss = loss
        self.details = details


class Dialer:
    """Makes the connections of one process.

    Args:
        node: the name of this machine, see Endpoint.
        timeout_s: how long a connection may take until both sides are proven.
        ssl: for TCP.
    """

    def __init__(self, secret: bytes, node: str, timeout_s: float, ssl: SSLContext | None) -> None:
        self.secret = secret
        self.node = node
        self._timeout_s = timeout_s
        self._ssl = ssl

    async def dial(self, endpoint: Endpoint, handshake: ClientHandshake, take_over: TakeOver) -> None:
        """Make one connection.

        Args:
            take_over: called when both sides are proven and the server takes the connection.

        Raises:
            DialError: it could not be made.
        """
        refused: list[Welcome] = []

        def take(transport: asyncio.Transport, welcome: Welcome) -> Connection | None:
            if welcome.admission == HandshakeReply.ADMITTED:
                return take_over(transport, welcome)
            refused.append(welcome)
            return None

        proving: ProvingConnection | None = None

        def make() -> ProvingConnection:
            nonlocal proving
            proving = ProvingConnection(handshake, take)
            return proving

        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connect(endpoint, make)
                await connection.welcome
        except TimeoutError:
            raise DialError(Loss.UNREACHABLE, f"no answer in {self._timeout_s:g} s") from None
        except ProtocolError as error:
            raise DialError(Loss.NOT_ADMITTED, str(error)) from error
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise DialError(Loss.REFUSED) from error
        except OSError as error:
            was_there = proving is not None and proving.was_connected
            raise DialError(Loss.NOT_ADMITTED if was_there or _is_broken(error) else Loss.UNREACHABLE, str(error)) from error
        finally:
            if proving is not None:
                proving.give_up()
        if refused:
            raise _refusal(refused[0])

    async def _connect(self, endpoint: Endpoint, make: Callable[[], ProvingConnection]) -> ProvingConnection:
        loop = asyncio.get_running_loop()
        if endpoint.is_near(self.node):
            _, near = await loop.create_unix_connection(make, endpoint.path)
            return near
        name = endpoint.host if self._ssl is not None else None
        transport, far = await loop.create_connection(make, endpoint.host, endpoint.port, ssl=self._ssl, server_hostname=name)
        found: socket.socket | None = transport.get_extra_info("socket")
        if found is not None:
            keep_alive(found)
        return far


def _is_broken(error: OSError) -> bool:
    """True when there was a connection that broke: maybe with a process that ends at this moment."""
    return isinstance(error, ConnectionError | SSLError) or error.errno == errno.ENOTCONN


def _refusal(welcome: Welcome) -> DialError:
    if welcome.admission == HandshakeReply.OTHER_BOOT:
        return DialError(Loss.OTHER_BOOT)
    if welcome.admission == HandshakeReply.OTHER_VERSION:
        return DialError(Loss.OTHER_VERSION, f"version {welcome.version}")
    return DialError(Loss.CUT, "a later attempt was there before")
