"""A program leaves a deployment, or stops it: at once, or when the turns that run have ended."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from actors.errors import RaygroveError
from actors.layers.draining import Drain
from actors.layers.listing.client import count_turns, list_turns
from actors.layers.listing.messages import ListTurns
from actors.messages.event import now_s
from actors.messages.shown import Shown
from actors.messages.turn_info import TurnInfo
from runtime.driver.arguments import checked_age
from runtime.driver.engine_client import EngineClient
from runtime.driver.turns.program_turns import ProgramTurns

LEASE_S = 60.0
"""For how long actors refuse new turns after they have last heard of the program that drains."""

BEAT_S = 1.0
"""How often they hear of it."""

READERS_S = 2.0
"""How long programs may take to fetch the last events of turns that have ended."""

READERS_POLL_S = 0.02

_END = Drain(lease_s=0.0)

MOST_LEFT = 1_000
"""Turns that are named, of those that are left."""


class Drained(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """What became of the turns of a deployment that was drained, and has stopped.

    Attributes:
        left: turns that had not ended in time, at most 1,000. Running ones are open in the store; those that waited in line
            were not stored.
        paused: how many turns wait for answers.
        took_s: how long it took until nothing ran any more, or the time was over.
    """

    left: Sequence[TurnInfo] = ()
    paused: int = 0
    took_s: float = 0.0


def leave(client: EngineClient, turns: ProgramTurns, *, leave_turns: bool = False) -> None:
    """Leave a deployment: see Runtime.close."""
    if not turns.is_open or client.is_forked:
        return
    followed, engine = turns.close(), client.engine
    if engine.lasts:
        client.end_loop(followed.leave, engine.leave)
    else:
        client.end_loop(partial(engine.stop, leave_turns=leave_turns), followed.close)


def stop(client: EngineClient, turns: ProgramTurns, *, leave_turns: bool = False) -> None:
    """Stop a deployment for good. Raises RuntimeClosedError."""
    client.end_loop(partial(client.engine.stop, leave_turns=leave_turns), turns.close().close)


def drain(
    client: EngineClient, turns: ProgramTurns, within_s: float | None, before_stop: Callable[[], None] = lambda: None
) -> Drained:
    """Stop a deployment for good as soon as its turns have ended: see Runtime.drain."""
    turns.client()
    limit_s = _checked_within(within_s)
    try:
        drained = client.run(_until_drained(client, limit_s))
        before_stop()
    except BaseException:
        with suppress(RaygroveError):
            client.run(_tell(client, _END))
        raise
    stop(client, turns, leave_turns=True)
    return drained


async def drain_async(client: EngineClient, turns: ProgramTurns, within_s: float | None) -> Drained:
    """The same on an event loop."""
    turns.client()
    limit_s = _checked_within(within_s)
    try:
        drained = await client.run_async(_until_drained(client, limit_s))
    except BaseException:
        with suppress(RaygroveError):
            await client.run_async(_tell(client, _END))
        raise
    await asyncio.to_thread(stop, client, turns, leave_turns=True)
    return drained


async def _tell(client: EngineClient, drain: Drain) -> int:
    """Tell all actors that the deployment drains. Returns how many turns are left, once there are none or after the wait."""
    engine = client.engine
    # First those that Runners ask which are started again.
    await engine.session.ask(drain)
    return (await engine.runner.ask(drain)).left


async def _until_drained(client: EngineClient, within_s: float) -> Drained:
    engine, clock = client.engine, asyncio.get_running_loop().time
    if engine.loop_clock is not None:
        engine.loop_clock.thaw()
    began_s, drain = clock(), Drain(lease_s=LEASE_S, since_s=now_s())
    left = 1
    while left and clock() - began_s < within_s:
        wait_s = min(BEAT_S, within_s - (clock() - began_s))
        left = await _tell(client, msgspec.structs.replace(drain, wait_s=wait_s))
    took_s = clock() - began_s
    await _wait_for_readers(client, drain)
    counts = await count_turns(engine.session, client.app_name)
    return Drained(left=await _left(client) if left else (), paused=counts.paused, took_s=took_s)


async def _wait_for_readers(client: EngineClient, drain: Drain) -> None:
    session = client.engine.session
    with suppress(TimeoutError):
        async with asyncio.timeout(READERS_S):
            # Programs fetch the ends of turns by polls of their own.
            while (await session.ask(drain)).left:  # noqa: ASYNC110
                await asyncio.sleep(READERS_POLL_S)


async def _left(client: EngineClient) -> list[TurnInfo]:
    session = client.engine.session
    lists = [
        await list_turns(session, ListTurns(app=client.app_name, state=state, limit=MOST_LEFT))
        for state in ("waiting", "running")
    ]
    return [turn for each in lists for turn in each][:MOST_LEFT]


def _checked_within(within_s: float | None) -> float:
    return math.inf if within_s is None else checked_age("within_s", within_s)
