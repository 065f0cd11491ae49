"""The partial events of one run, sent one batch after the other."""

from __future__ import annotations

import asyncio

from actors.messages import protocol as p
from actors.refs.session import SessionRef


class PartialEvents:
    """Sends partial events: the first at once, and those that come while a batch is on its way together."""

    def __init__(self, session: SessionRef, turn: p.TurnRef) -> None:
        self._session = session
        self._turn = turn
        self._waiting: list[bytes] = []
        self._sender: asyncio.Task[None] | None = None

    async def send(self, raw: bytes) -> None:
        """Send an encoded event; returns while it may still be on its way. Raises what sending earlier ones has raised."""
        self._waiting.append(raw)
        if self._sender is None or self._sender.done():
            if self._sender is not None:
                self._sender.result()
            self._sender = asyncio.create_task(self._send_all())
        # Let the sender begin: a model that never waits would otherwise keep the first event back.
        await asyncio.sleep(0)

    async def _send_all(self) -> None:
        while self._waiting:
            events, self._waiting = self._waiting, []
            await self._session.tell_partial(p.TellPartial(turn=self._turn, events=events))

    async def flush(self) -> None:
        """Return when all events have arrived. Raises what sending them has raised."""
        if self._sender is not None:
            await self._sender
            self._sender = None
