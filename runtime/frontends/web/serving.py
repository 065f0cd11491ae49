"""Serves an application with uvicorn, and ends its streams first when it stops."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from actors.errors import DefinitionError
from runtime.frontends.web.auth import is_loopback
from runtime.frontends.web.connections import ConnectionLimits, HttpConnections
from runtime.transport.io.listening import more_handles

GRACE_S = 10
"""How long requests under way may go on when the server stops."""

ACCEPTED_AT_ONCE = 32
"""New connections that one pass of the event loop takes: some milliseconds of work."""


class WebServer(uvicorn.Server):
    """A server of one application of `app_for`.

    Args:
        host: where it listens.
        port: the port; 0 has a free one chosen.
        on_ready: called with the URL once the server listens.

    Raises:
        DefinitionError: other machines would reach the server, and it asks for no credentials.
    """

    def __init__(
        self,
        app: Starlette,
        host: str,
        port: int,
        on_ready: Callable[[str], object] | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        if not app.state.needs_credentials and not is_loopback(host):
            raise DefinitionError(
                f"a server at {host!r} can be reached from other machines, so it needs credentials: give it tokens, or let it "
                "listen at 127.0.0.1"
            )
        self._app = app
        self._on_ready = on_ready
        self.connections = HttpConnections(limits or ConnectionLimits(), app.state.shedding)
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=self.connections.protocol,  # type: ignore[arg-type]
            ws="none",
            log_level="warning",
            access_log=False,
            lifespan="auto",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)

    @property
    def url(self) -> str:
        """Where clients reach it, once it has started."""
        address = self.servers[0].sockets[0].getsockname()
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        return f"http://{host}:{address[1]}"

    def check_port(self) -> None:
        """Check that the server could listen now, without doing so. uvicorn would log a line of errno and end the process.

        Raises:
            DefinitionError: the port is in use, or not this account's, or the host is no address of this machine.
        """
        host, port = self.config.host, self.config.port
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in found:
                with socket.socket(family, kind, protocol) as probe:
                    # As asyncio does: what is left of closed connections does not count.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise DefinitionError(
                    f"port {port} of {host} is in use by another program: name another one, such as --port {_next(port)}, or "
                    "have a free one chosen by --port 0"
                ) from error
            raise DefinitionError(f"the server cannot listen at port {port} of {host!r}: {error.strerror or error}") from error

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so. Raises DefinitionError as `check_port` does: another program may have come first."""
        self.check_port()
        await super().startup(sockets)
        await self._accept_many()
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Closing a connection would wait for the client to read what is buffered.
            for listening in (each for server in self.servers for each in server.sockets):
                listening.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(self.connections.limits.unread_timeout_s * 1_000)
                )
        if self._on_ready is not None:
            self._on_ready(self.url)

    async def _accept_many(self) -> None:
        """Take many connections in each pass of the event loop, so that new ones are refused as soon as those that are there."""
        loop = asyncio.get_running_loop()
        for listening in [each for server in self.servers for each in server.sockets]:
            for handle in more_handles(listening, ACCEPTED_AT_ONCE):
                self.servers.append(await loop.create_server(self._connection, sock=handle, backlog=self.config.backlog))

    def _connection(self) -> asyncio.Protocol:
        return self.connections.protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal; at a second Ctrl-C without waiting. The signal has done its work then, and is not raised again."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the clients of streams to go on elsewhere, then end what is under way."""
        self._app.state.slots.close()
        await super().shutdown(sockets)


def _next(port: int) -> int:
    return port + 1 if port < 65_535 else port - 1
