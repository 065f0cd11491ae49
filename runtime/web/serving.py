"""Serves an application with uvicorn, and ends its streams first when it stops."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette

from actors.errors import DefinitionError
from runtime.web.auth.loopback import is_loopback

GRACE_S = 10
"""How long requests under way may go on when the server stops."""


class WebServer(uvicorn.Server):
    """A server of one application of `app_for`.

    Args:
        app: the application.
        host: where it listens.
        port: the port; 0 has a free one chosen.
        has_auth: whether requests need credentials. Without, only an address of this machine is listened at.
        log_level: of uvicorn's own log.

    Raises:
        DefinitionError: other machines would reach the server, and it asks for no credentials.
    """

    def __init__(self, app: Starlette, host: str, port: int, *, has_auth: bool, log_level: str = "warning") -> None:
        if not has_auth and not is_loopback(host):
            raise DefinitionError(
                f"a server at {host!r} can be reached from other machines, so it needs credentials: give it tokens, or let it "
                "listen at 127.0.0.1"
            )
        self._app = app
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level=log_level,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)

    @property
    def port(self) -> int:
        """The port at which it listens, once it has started."""
        return int(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the clients of streams to go on elsewhere, then end what is under way."""
        self._app.state.slots.close()
        await super().shutdown(sockets)
