"""A client's connection with one server."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from runtime.transport.io.connection import Connection
from runtime.transport.options import DirectOptions
from runtime.transport.protocol.client import SILENT_TICKS, ClientEvent, ClientSide


class ConnectionOwner(Protocol):
    """What a connection belongs to."""

    def happened(self, event: ClientEvent[Any]) -> None:
        """The server has said something about a request."""
        ...

    def has_room(self) -> None:
        """Requests can be written again without filling memory."""
        ...

    def lost(self, connection: ClientConnection) -> None:
        """The connection is gone."""
        ...


class ClientConnection(Connection):
    """Carries the requests and replies of a client's side, and notices when the server says nothing."""

    def __init__(
        self, transport: asyncio.Transport, address: str, side: ClientSide[Any], owner: ConnectionOwner, options: DirectOptions
    ) -> None:
        super().__init__(transport, address, side, options.requests_at_once)
        self._client = side
        self._owner = owner
        self._linger_s = options.connect_s
        self._tick_s = options.lost_s / SILENT_TICKS
        self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def handle_events(self) -> None:
        """Hand over what the server says."""
        while not self.is_closed and (event := self._client.next_event()) is not None:
            self._owner.happened(event)
        self.pump()

    def leave(self) -> None:
        """Tell the server that this client will not come again, and end the connection."""
        self._client.leave()
        self.close_written(self._linger_s)

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room."""
        super().resume_writing()
        if not self.is_closed and self._client.has_room:
            self._owner.has_room()

    def _tick(self) -> None:
        if not self._client.tick():
            self.fail(f"it has sent nothing for {self._tick_s * SILENT_TICKS:.1f} s")
        if not self.is_closed:
            self.pump()
            self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def connection_closed(self) -> None:
        """The server is gone, or has to be asked again."""
        self._timer.cancel()
        self._client.disconnected()
        self._owner.lost(self)
