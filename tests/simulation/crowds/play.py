"""One crowd: its wishes are asked for by drivers, each in a process of its own, and what they are told is kept."""

from __future__ import annotations

import asyncio

from tests.simulation.agents import build
from tests.simulation.crowds.crowd import Crowd
from tests.simulation.crowds.invariants import problems
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.programs import Wish, grant, judge
from tests.simulation.scenarios import Node
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import World, deployment_of

SETTLE_S = 30.0
"""Virtual seconds that are waited for things that may still happen."""


def play(given: Crowd, seed: int) -> Left:
    left = Left()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        root, opens = Node(kind="llm", name="root", thinks_s=given.thinks_s), (given.at_once, given.of_many)
        world = World(loop, deployment_of(build(root)), given.plan, calls, seed, limits=given.limits, opens=opens)
        left.trace = world.trace
        world.start()
        await asyncio.gather(*(grant(world, wish) for wish in given.wishes))
        await asyncio.sleep(SETTLE_S)
        last = await grant(world, Wish(turn="last", user="last"))
        if last.ended != "Finished":
            left.problems.append(f"a turn after the crowd ends with {last.ended}: {last.error}")
        statistics = await world.driver().rt._client.engine.runner.statistics()
        if waiting := statistics.counts["waiting"]:
            left.problems.append(f"{waiting} turns wait when all is over")
        judge(world, left)

    in_virtual_time(left, seed, meet)
    left.problems += problems(given, left)
    return left
