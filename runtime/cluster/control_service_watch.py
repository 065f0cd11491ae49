"""Whether the control service of a Ray (GCS) can be reached, as one process sees it."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.interfaces.telemetry import tell_event

LOOK_S = 1.0
"""Time between two attempts to connect. Ray's servers end a connection that says nothing after two minutes."""

REACH_S = 5.0
"""How long an attempt may take. This event loop may stand still for a part of it, on a busy machine."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
"""The kernel notices within 11 s that the service's machine is gone."""

GivenUp = Callable[[str], Awaitable[None]]
"""Called when the service has been away for too long, with the reason."""


class ControlServiceWatch:
    """Holds a connection to the control service and notices when it breaks. Nothing is sent: it costs nothing while all is well.

    Events tell when the service is away, and when it is back. A service that stands still is not away.

    Args:
        address: of the service, as `host:port`.
        patience_s: how long it may be away.
        given_up: called when it was away for longer; None: it is waited for without limit.
    """

    def __init__(self, address: str, patience_s: float = math.inf, given_up: GivenUp | None = None) -> None:
        self._address = address
        self._patience_s = patience_s
        self._given_up = given_up
        self._away_since_s: float | None = None
        self._is_away = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    @property
    def away_s(self) -> float:
        """For how long it has been away; 0: it can be reached."""
        return 0.0 if self._away_since_s is None else time.monotonic() - self._away_since_s

    async def until_away(self) -> None:
        """Wait until it is away."""
        await self._is_away.wait()

    async def _follow(self) -> None:
        while True:
            began_s = time.monotonic()
            try:
                await self._until_cut()
            except OSError as error:
                self._note_away(error)
                if self._given_up is not None and self.away_s >= self._patience_s:
                    await self._given_up(f"the control service of the Ray at {self._address} is away")
                    return
                await asyncio.sleep(LOOK_S)
            else:
                await asyncio.sleep(max(0.0, began_s + LOOK_S - time.monotonic()))

    async def _until_cut(self) -> None:
        """Connect, and wait until the connection ends. Raises OSError when there is none to be had."""
        host, _, port = self._address.rpartition(":")
        async with asyncio.timeout(REACH_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        try:
            self._note_back()
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEP_ALIVE.items():
                if hasattr(socket, option):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            with suppress(OSError):
                while await reader.read(4_096):
                    pass
        finally:
            writer.close()

    def _note_away(self, error: OSError) -> None:
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()
            self._is_away.set()
            tell_event(
                "control service away",
                "the control service of the Ray at %s cannot be reached (%s): turns go on, but no lost process is replaced",
                self._address,
                error or type(error).__name__,
            )

    def _note_back(self) -> None:
        if self._away_since_s is not None:
            self._away_since_s = None
            self._is_away.clear()
            tell_event("control service back", "the control service of the Ray at %s is back", self._address, level=logging.INFO)
