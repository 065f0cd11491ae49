"""Users whose turns think or work, and users whose turns end the process in which they run, alone or with others.

One user's failure is no other's, and it ends.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, cast

import msgspec

from actors.rules.suspects import MAX_ATTEMPTS, MAX_LOSSES, MAX_TOGETHER
from tests.simulation.cluster import HostProcess
from tests.simulation.frame import Left, in_virtual_time
from tests.simulation.play import NO_FAULTS
from tests.simulation.programs import grant, judge
from tests.simulation.stores import StoreCalls
from tests.simulation.virtual_loop import PROCESS, VirtualLoop, outside
from tests.simulation.workers import Task, Tasks, tree
from tests.simulation.world import World, deployment_of

LIMIT_S = 200.0
"""Virtual seconds in which a crowd has to be over."""

Core = Literal["runner", "session"]


class Asked(Task, frozen=True, kw_only=True):
    """A user's turn.

    Attributes:
        crashes: its process ends then.
        takes: who is lost together with the process.
    """

    crashes: bool = False
    takes: Sequence[Core] = ()


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes:
        turns: of users of their own.
        groups: agents live in so many processes; 0: each in its own.
        lost: processes that are lost besides: when, and which.
    """

    turns: Sequence[Asked]
    groups: int = 0
    lost: Sequence[tuple[float, Literal["agents", "runner", "session"]]] = ()


class Poisoned(Left):
    """What a crowd leaves besides. `runs`: how often the tool or the callback of each turn ran."""

    runs: Counter[str] = msgspec.field(default_factory=Counter)


def crowd(seed: int) -> Crowd:
    """The crowd of a seed. Two in three have no other losses."""
    chance = random.Random(f"crowd {seed}")

    def asked(number: int, does: Sequence[str], longest_s: float, takes: Sequence[Sequence[Core]] = ((),)) -> Asked:
        takes_s = 10 ** chance.uniform(-2, longest_s)
        at_s, what = chance.uniform(0, 4), chance.choice(does)
        return Asked(
            turn=f"t{number}",
            user=f"u{number}",
            at_s=at_s,
            does=what if what in ("think", "call back") else "work",
            crashes=longest_s < 0.7,
            has_expert=what == "expert",
            takes_s=takes_s,
            takes=chance.choice(takes),
            often=chance.choice([1, 1, 3]),
        )

    innocent = [asked(number, ["think", "work", "work"], 0.8) for number in range(chance.randint(3, 8))]
    poisoned = [
        asked(len(innocent) + number, ["work", "work", "call back", "expert"], 0.6, ALONG)
        for number in range(chance.randint(1, 2))
    ]
    groups = chance.choice([0, 1, 1])
    whos: Sequence[Literal["agents", "runner", "session"]] = ("agents", "runner", "session")
    lost = [] if chance.randrange(3) else [(chance.uniform(0, 6), chance.choice(whos)) for _ in range(2)]
    return Crowd(turns=[*innocent, *poisoned], groups=groups, lost=lost)


ALONG: Sequence[Sequence[Core]] = ((), (), ("runner",), ("runner", "session"), ("session",))


def play(given: Crowd, seed: int) -> Poisoned:
    left = Poisoned()

    async def meet(loop: VirtualLoop, calls: StoreCalls) -> None:
        world = World(loop, deployment_of(tree()), NO_FAULTS, calls, seed, given.groups)
        left.trace = world.trace

        async def do(asked: Asked) -> None:
            left.runs[asked.turn] += asked.does != "think"
            await asyncio.sleep(asked.takes_s)
            if asked.crashes:
                here = cast(HostProcess, PROCESS.get())
                outside(loop.call_later, 0.0, world.kill, here)
                for who in asked.takes:
                    outside(loop.call_later, 0.0, _kill, world, who)
                await asyncio.sleep(LIMIT_S)

        Tasks(given.turns, do)
        world.start()
        for after_s, who in given.lost:
            outside(loop.call_later, after_s, _kill, world, who)
        asks = await asyncio.gather(*(grant(world, asked, asked.turn) for asked in given.turns))
        judge(world, left)
        for asked, ask in zip(given.turns, asks, strict=True):
            left.problems += _wrong(given, asked, ask.ended, left.runs[asked.turn])

    return in_virtual_time(left, seed, meet, LIMIT_S)


def _kill(world: World, who: str) -> None:
    if who == "runner" and world.runner is not None:
        world.kill(world.runner, 0.1)
    elif who == "session" and world.session is not None:
        world.kill(world.session, 0.1)
    elif who == "agents" and world.directory is not None:
        for process in world.directory.processes():
            world.kill(process)


def _wrong(given: Crowd, asked: Asked, ended: str, runs: int) -> Iterator[str]:
    """A turn that ends processes fails, in the end, and no other does."""
    # An agent that is a tool fails by itself: its model's caller hears of that and goes on.
    right = "AgentLostError" if asked.crashes and not asked.has_expert else "Finished"
    if ended != right:
        yield f"turn {asked.turn} has ended as {ended}, and not as {right}"
    poisoned = sum(each.crashes for each in given.turns)
    # It may be lost with others each time that one of these is, or something else, or the agent that has asked for it. That one's
    # losses are all that is stored where the Session actor is lost before it hears of the other's.
    alone = MAX_ATTEMPTS if "runner" in asked.takes or poisoned > 1 or given.lost else MAX_LOSSES
    alone *= 1 + (asked.has_expert and "session" in asked.takes)
    together = MAX_TOGETHER * (1 + asked.has_expert) + len(given.lost) + (poisoned - 1) * MAX_ATTEMPTS
    if asked.crashes and runs > (alone + together) * asked.often:
        yield f"turn {asked.turn} has run {runs} times, at most {(alone + together) * asked.often} were right"
