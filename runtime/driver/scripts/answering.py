"""One input of a map, to its result: attempts, and the waits between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from actors.errors import OverloadedError, RaygroveError
from actors.messages.event import Event
from actors.messages.protocol.runs import Paused
from runtime.driver.scripts.inputs import MapInput
from runtime.driver.scripts.questions import Asking
from runtime.driver.scripts.results import MapResult
from runtime.driver.scripts.retries import BACKOFF, Retries, ends_map
from runtime.driver.turns.turn import OnLeave, Turn

StartAttempt = Callable[[MapInput, str, str], Turn]
"""Starts a turn for an input, with the ids of its session and of itself."""


@dataclass(frozen=True)
class Answering:
    """Answers inputs. Its coroutine runs on the portal's loop.

    An attempt that failed, or was cancelled, in an earlier run is no attempt of this one: the next follows at once.

    Attributes:
        retries: which failures are worth another attempt.
        on_leave: what becomes of the turn when the map is left.
    """

    start: StartAttempt
    question: Asking
    retries: Retries
    on_leave: OnLeave

    async def answer(self, given: MapInput) -> MapResult:
        """Have an input answered. Raises RuntimeClosedError or ActorLostError when the deployment is gone."""
        began_s = time.monotonic()
        attempt, failed = 0, 0
        while True:
            attempt += 1
            result = await self._attempt(given, attempt)
            error = result.error
            if error is not None and ends_map(error):
                raise error
            if error is None or (not result.is_repeated and failed >= self.retries.of(error)):
                return msgspec.structs.replace(result, duration_s=time.monotonic() - began_s)
            if not result.is_repeated:
                failed += 1
                await asyncio.sleep(BACKOFF.after_attempts(failed))

    async def _attempt(self, given: MapInput, attempt: int) -> MapResult:
        """One attempt. It waits for as long as the deployment has more to do than it may."""
        while True:
            result = await self._turn(given, attempt)
            if not isinstance(result.error, OverloadedError):
                return result
            await asyncio.sleep(result.error.retry_after_s)

    async def _turn(self, given: MapInput, attempt: int) -> MapResult:
        session_id, invocation_id = given.ids(attempt)
        base = MapResult(
            index=given.index,
            input=given.given,
            user_id=given.user_id,
            session_id=session_id,
            invocation_id=invocation_id,
            attempts=attempt,
            state_delta=given.state_delta,
        )
        turn: Turn | None = None
        try:
            try:
                turn = self.start(given, session_id, invocation_id)
                result = await turn
                output = None if isinstance(result.outcome, Paused) else self.question.read(result)
                ended = {"result": result, "output": output, "events": result.events}
            except RaygroveError as error:
                ended = {"error": error, "events": await _events(turn) if turn is not None else ()}
            is_repeated = turn is not None and await turn.aio.is_repeated()
        except asyncio.CancelledError:
            if turn is not None:
                self._leave(turn)
            raise
        return msgspec.structs.replace(base, is_repeated=is_repeated, **ended)

    def _leave(self, turn: Turn) -> None:
        if self.on_leave == "cancel":
            turn.cancel()
        else:
            turn.detach()


async def _events(turn: Turn) -> Sequence[Event]:
    """The complete events of a turn that has failed."""
    events = []
    try:
        async for event in turn:
            if not event.partial:
                events.append(event)
    except RaygroveError:
        # The error with which the turn has ended, which the caller has.
        pass
    return events
