"""The partial events of one run, sent one batch after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import protocol as p
from actors.refs import SessionRef
from actors.rules.delivery.answers import AnswerPartials


class PartialEvents:
    """Sends partial events: the first at once, and those that come while a batch is on its way together.

    It keeps what it has sent of an answer, merged and bounded: a Session actor that was started again lacks the beginning.
    """

    def __init__(self, session: SessionRef, turn: p.TurnRef) -> None:
        self._session = session
        self._turn = turn
        self._number = 0
        self._answer: _Answer | None = None

    async def send(self, raw: bytes) -> None:
        """Send an encoded event; returns while it may still be on its way. Raises what sending earlier ones has raised."""
        answer = self._answer
        if answer is None:
            answer = self._answer = _Answer(self._session, self._turn, self._number)
        answer.add(raw)
        # Let the sender go on: a model that never waits would otherwise keep the first event back.
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return when all events have arrived: their answer is over. Raises what sending them has raised."""
        if self._answer is not None:
            await self._answer.end()
            self._answer = None
            self._number += 1

    def give_up(self) -> None:
        """The run is over: what it has not said to its end is not waited for."""
        if self._answer is not None:
            self._answer.give_up()


class _Answer:
    """The partials of one answer: one task sends them all.

    Args:
        number: of the answer in the run.
    """

    def __init__(self, session: SessionRef, turn: p.TurnRef, number: int) -> None:
        self._session = session
        self._turn = turn
        self._number = number
        self._waiting: list[bytes] = []
        self._sent = AnswerPartials()
        self._is_mute = self._is_over = False
        # Set while the sender has nothing to send.
        self._woken: asyncio.Future[None] | None = None
        self._sender = asyncio.create_task(self._send_all())
        # A run that fails does not wait for it.
        self._sender.add_done_callback(lambda sender: sender.cancelled() or sender.exception())

    def add(self, raw: bytes) -> None:
        """Have one more sent. Raises what sending earlier ones has raised."""
        if self._sender.done():
            self._sender.result()
        self._waiting.append(raw)
        self._wake()

    def end(self) -> asyncio.Task[None]:
        """The answer is over. Returns the task that sends what is left of it."""
        self.give_up()
        return self._sender

    def give_up(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _send_all(self) -> None:
        while self._waiting or not self._is_over:
            if not self._waiting:
                self._woken = self._sender.get_loop().create_future()
                await self._woken
                self._woken = None
                continue
            events, self._waiting = self._waiting, []
            if not self._is_mute:
                await self._send(events)

    async def _send(self, events: Sequence[bytes]) -> None:
        first = self._sent.count
        self._sent.add([p.StoredEvent(0, raw) for raw in events])
        told = await self._session.ask(p.TellPartial(turn=self._turn, events=events, answer=self._number, first=first))
        if isinstance(told, p.TellAgain):
            await self._send_again()

    async def _send_again(self) -> None:
        """Send all of the answer so far; or nothing more of it, if it became too long to be kept."""
        self._is_mute = not self._sent.is_whole
        if self._is_mute:
            return
        partials = self._sent.partials()
        self._sent = AnswerPartials()
        self._sent.add(partials)
        raws = [partial.raw for partial in partials]
        await self._session.ask(p.TellPartial(turn=self._turn, events=raws, answer=self._number, again=True))
