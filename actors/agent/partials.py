"""Partial events of one run, sent one batch after the other."""

from __future__ import annotations

import asyncio

from actors.messages import protocol as p
from actors.refs.session import SessionRef


class PartialEvents:
    """Sends pieces of an answer: the first at once, and what comes while one is on its way together."""

    def __init__(self, session: SessionRef, turn: p.TurnRef) -> None:
        self._session = session
        self._turn = turn
        self._waiting: list[bytes] = []
        self._sender: asyncio.Task[None] | None = None

    async def send(self, raw: bytes) -> None:
        """Send an encoded event; returns while earlier ones may still be on their way. Raises what sending these has raised."""
        self._waiting.append(raw)
        if self._sender is None or self._sender.done():
            if self._sender is not None:
                self._sender.result()
            self._sender = asyncio.create_task(self._send_all())
        # Let the sender begin: a model that never waits would otherwise keep the first piece back.
        await asyncio.sleep(0)

    async def _send_all(self) -> None:
        while self._waiting:
            events, self._waiting = self._waiting, []
            await self._session.tell_partial(p.TellPartial(turn=self._turn, events=events))

    async def flush(self) -> None:
        """Return when everything has been sent."""
        if self._sender is not None:
            await self._sender
            self._sender = None
