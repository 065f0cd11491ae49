"""Scenes of a simulation that a test writes itself: it holds the drivers, and says which process is lost when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from runtime.driver.turns.turn import Turn
from tests.simulation.agents import build, forget_calls
from tests.simulation.drivers import Driver
from tests.simulation.play import KEY, NO_FAULTS
from tests.simulation.scenarios import Node
from tests.simulation.stores import clear_used
from tests.simulation.virtual_loop import NO_PROCESS, VirtualLoop
from tests.simulation.world import World, deployment_of, seeded

T = TypeVar("T")

ENOUGH_S = 300.0
"""Virtual seconds in which a scene has to be over."""


def play_scene(root: Node, script: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    """Play a scene in a world without faults of its own. Returns what the script returns."""
    return NO_PROCESS.copy().run(_play, root, script)


def _play(root: Node, script: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    loop = VirtualLoop()
    forget_calls()
    with seeded(loop, 0) as calls:
        try:
            return loop.run_until_complete(_in_world(World(loop, deployment_of(build(root)), NO_FAULTS, calls, 0), script))
        finally:
            loop.forget()
            clear_used()


async def _in_world(world: World, script: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    world.start()
    async with asyncio.timeout(ENOUGH_S):
        return await script(world)


def run_turn(driver: Driver, invocation_id: str = "", message: Any = "hi", **more: Any) -> Turn:
    """A turn of the scene's session, started by a driver."""
    if invocation_id:
        more["invocation_id"] = invocation_id
    return driver.run(lambda: driver.rt.run(user_id=KEY.user, session_id=KEY.session, message=message, **more))


def attach(driver: Driver, invocation_id: str) -> Turn:
    """A turn of the scene's session, followed by a driver."""
    return driver.run(lambda: driver.rt.attach(user_id=KEY.user, session_id=KEY.session, invocation_id=invocation_id))


async def outcome_of(driver: Driver, turn: Turn) -> tuple[str, list[str]]:
    """How a turn ends for a driver, and the texts that it is told."""
    return await driver.spawn(_outcome_of(turn))


async def _outcome_of(turn: Turn) -> tuple[str, list[str]]:
    texts = []
    try:
        async for event in turn:
            if not event.partial and event.text:
                texts.append(event.text)
        return type((await turn).outcome).__name__, texts
    except Exception as error:
        return type(error).__name__, texts
