"""What a request does while its turn begins and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from runtime.driver.turns.turn import Turn, TurnResult
from runtime.frontends.web.call import Call
from runtime.frontends.web.problems import HttpError
from runtime.frontends.web.streams import until_left

T = TypeVar("T")

START_S = 0.5
"""How long a response waits for its turn to begin, so that an error that keeps it from starting becomes a status. One that is in
the line of its session takes longer, and is accepted."""

MOST_IN_LINE = 1_000
"""Turns of a session among which one that waits is looked for."""


async def started_id(call: Call, turn: Turn) -> str | None:
    """The id of a turn that has begun; None of one that waits. Raises why it could not start."""
    try:
        async with asyncio.timeout(START_S) as waiting:
            invocation_id = await turn.aio.started()
    except TimeoutError:
        if not waiting.expired():
            raise
        return None
    await call.served.lines.come_up()
    return invocation_id


async def result_of(call: Call, turn: Turn) -> TurnResult:
    """Wait for the end of a turn. Raises why it has failed, or could not start."""
    # It waits for the turn's end.
    await turn.aio.is_repeated()
    await call.served.lines.come_up()
    return await turn.result_async()


async def accepted_id(call: Call, turn: Turn, key: tuple[str, str]) -> str | None:
    """The id of a turn that has begun; None of one that waits in the line of its session, as the deployment says itself.

    While the store is away a turn is neither: the response waits, since what is accepted must not be lost afterwards.

    Args:
        key: its user and session.

    Raises:
        RaygroveError: why it could not start.
    """
    starting = asyncio.ensure_future(turn.aio.started())
    try:
        while True:
            await asyncio.wait((starting,), timeout=START_S)
            if starting.done():
                return starting.result()
            line = await call.runtime.aio.turns.list(*key, "waiting", limit=MOST_IN_LINE)
            if turn.invocation_id in {each.invocation_id for each in line}:
                return None
    finally:
        starting.cancel()


async def unless_left(call: Call, work: Awaitable[T]) -> T | None:
    """The result of some work; None when the client leaves before.

    Raises:
        HttpError: the server stops.
        Exception: what the work raises.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.create_task(until_left(call.request.receive))
    closing = asyncio.create_task(call.served.slots.wait_until_closing())
    try:
        await asyncio.wait((working, leaving, closing), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if closing.done():
            raise HttpError(503, "the server stops: ask again, at another one or later")
        return None
    finally:
        for task in (working, leaving, closing):
            task.cancel()
        await asyncio.gather(working, leaving, closing, return_exceptions=True)
