"""A link to an actor that a test loses and starts again."""

from __future__ import annotations

import asyncio

from actors.actor import Actor
from actors.interfaces.transport import EarlyReply


class Restarting:
    """A link to an actor that is lost and started again: what it has not answered is sent again."""

    def __init__(self, actor: Actor) -> None:
        self._actor: asyncio.Future[Actor] = asyncio.Future()
        self.is_back(actor)

    def is_lost(self) -> None:
        self._lost.set()
        self._actor = asyncio.Future()

    def is_back(self, actor: Actor) -> None:
        self._lost = asyncio.Event()
        self._actor.set_result(actor)

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        while True:
            actor = await asyncio.shield(self._actor)
            answering, losing = asyncio.create_task(actor.receive(raw)), asyncio.create_task(self._lost.wait())
            try:
                await asyncio.wait({answering, losing}, return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    return answering.result()
            finally:
                answering.cancel()
                losing.cancel()
