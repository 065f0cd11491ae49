"""The partial events of one run, sent one batch after the other."""

from __future__ import annotations

import asyncio

from actors.messages import protocol as p
from actors.refs.session import SessionRef
from actors.rules.delivery.answers import AnswerPartials


class PartialEvents:
    """Sends partial events: the first at once, and those that come while a batch is on its way together.

    It keeps what it has sent of an answer, merged and bounded: a Session actor that was started again lacks the beginning.
    """

    def __init__(self, session: SessionRef, turn: p.TurnRef) -> None:
        self._session = session
        self._turn = turn
        self._waiting: list[bytes] = []
        self._sender: asyncio.Task[None] | None = None
        self._number = 0
        self._answer = AnswerPartials()
        self._is_mute = False

    async def send(self, raw: bytes) -> None:
        """Send an encoded event; returns while it may still be on its way. Raises what sending earlier ones has raised."""
        self._waiting.append(raw)
        if self._sender is None or self._sender.done():
            if self._sender is not None:
                self._sender.result()
            self._sender = asyncio.create_task(self._send_all())
            # A run that fails does not wait for it.
            self._sender.add_done_callback(lambda sender: sender.cancelled() or sender.exception())
        # Let the sender begin: a model that never waits would otherwise keep the first event back.
        await asyncio.sleep(0)

    async def _send_all(self) -> None:
        while self._waiting:
            events, self._waiting = self._waiting, []
            if self._is_mute:
                continue
            first = self._answer.count
            self._answer.add([p.StoredEvent(0, raw) for raw in events])
            told = await self._session.tell_partial(
                p.TellPartial(turn=self._turn, events=events, answer=self._number, first=first)
            )
            if isinstance(told, p.TellAgain):
                await self._send_again()

    async def _send_again(self) -> None:
        """Send all of the answer so far; or nothing more of it, if it became too long to be kept."""
        self._is_mute = not self._answer.is_whole
        if self._is_mute:
            return
        partials = self._answer.partials()
        self._answer = AnswerPartials()
        self._answer.add(partials)
        raws = [partial.raw for partial in partials]
        await self._session.tell_partial(p.TellPartial(turn=self._turn, events=raws, answer=self._number, again=True))

    async def flush(self) -> None:
        """Return when all events have arrived: their answer is over. Raises what sending them has raised."""
        if self._sender is not None:
            await self._sender
            self._sender = None
            self._number += 1
            self._answer = AnswerPartials()
            self._is_mute = False
