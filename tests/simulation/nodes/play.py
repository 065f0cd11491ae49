"""One weather: turns run while nodes come and go. Nothing fails, and nothing stands for long while nodes drain in good time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from tests.model.history import Ask
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.nodes.weather import Asked, Weather
from tests.simulation.nodes.world import NodesWorld
from tests.simulation.programs import grant, judge
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.workers import Task, Tasks, tree
from tests.simulation.world import deployment_of

LIMIT_S = 400.0
"""Virtual seconds in which all has to be over."""

SETTLES_S = 35.0
"""Virtual seconds that nodes and processes have afterwards."""

STANDS_S = 5.0
"""The longest that a turn stands while nodes drain, and have time for it."""


class Lasted(Left):
    """What a weather leaves besides. `messages`: how many were sent."""

    messages: int = 0


def play(given: Weather, seed: int) -> Lasted:
    left = Lasted()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = NodesWorld(loop, deployment_of(tree()), given, calls, seed)
        left.trace = world.trace
        runs: Counter[str] = Counter()

        async def work(task: Task) -> None:
            runs[task.turn] += 1
            await asyncio.sleep(task.takes_s)

        Tasks(given.turns, work)
        world.start()
        programs = [world.driver(), world.driver()]
        asks = await asyncio.gather(*(grant(world, each, each.turn, programs[each.program]) for each in given.turns))
        await asyncio.sleep(SETTLES_S)
        left.messages = sum(world.wires.counts.values())
        left.problems += [*world.problems, *_unseen_errors(loop)]
        for asked, ask in zip(given.turns, asks, strict=True):
            left.problems += _wrong(given, asked, ask, runs[asked.turn])
        judge(world, left)

    return in_virtual_time(left, seed, meet, LIMIT_S)


def _unseen_errors(loop: VirtualLoop) -> Iterator[str]:
    """Errors of tasks that nothing has looked at."""
    for task in loop.tasks:
        if task.done() and not task.cancelled() and task._log_traceback:
            yield f"a task has failed: {task.exception()!r}"


def _wrong(given: Weather, asked: Asked, ask: Ask, runs: int) -> Iterator[str]:
    if ask.ended != "Finished" or ask.result.text != f"{asked.turn} is done":
        yield f"turn {asked.turn} has ended as {ask.ended}: {ask.error or ask.result}"
    # What others ask in its session goes first. A tool whose node leaves runs again.
    pauses_s = [
        later[0] - at[0] - (asked.takes_s * runs if any(event.function_responses()) else 0.0)
        for (at, _), (later, event) in zip(ask.heard, ask.heard[1:], strict=False)
    ]
    if given.is_mild and max(pauses_s, default=0.0) > STANDS_S:
        yield f"turn {asked.turn} stood {max(pauses_s):.1f} s"
