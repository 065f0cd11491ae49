"""What is played: turns, updates and rollbacks at their times, and what goes wrong. All of it follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from tests.simulation.faults import CALM, Fault, FaultPlan, Phase, What, drawn_network
from tests.simulation.programs import Wish

LASTS_S = 40.0
"""Virtual seconds in which turns begin."""

KINDS = ("UseVersions", "UseVersions", "LoadVersion", "GetVersions", "OpenTurn", "OpenTurn", "Invoke", "Append", "CloseTurn")
"""Messages at which something goes wrong."""


class Asked(Wish, frozen=True, kw_only=True):
    """A turn. `asks`: it pauses once, and is answered `answered_s` later."""

    asks: bool = False
    answered_s: float = 0.0


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Another tree is given to the deployment.

    Attributes:
        number: of the tree.
        part: of new sessions that get it.
    """

    deed: Literal["update", "rollback"]
    at_s: float
    number: int
    part: float = 1.0


class Edition(msgspec.Struct, frozen=True, kw_only=True):
    """Turns and edits, and what they meet.

    Attributes:
        works_s: how long the tool of each agent takes.
        plan: what goes wrong.
    """

    wishes: Sequence[Asked]
    edits: Sequence[Edit]
    works_s: float
    plan: FaultPlan


def edition(seed: int) -> Edition:
    """The edition of a seed."""
    chance = random.Random(f"edition {seed}")
    wishes = [
        Asked(
            turn=f"t{number}",
            at_s=chance.uniform(0, LASTS_S),
            session=f"s{number}",
            asks=chance.randrange(3) == 0,
            answered_s=chance.choice([0.1, 5.0, 30.0]),
        )
        for number in range(chance.randint(6, 14))
    ]
    edits, at_s = list[Edit](), 0.0
    for number in range(1, chance.randint(3, 8)):
        # Some come while the one before is under way.
        at_s += chance.choice([0.002, 0.05, 2.0, 6.0, 12.0])
        rolls_back = number > 1 and chance.randrange(4) == 0
        part = 0.5 if chance.randrange(6) == 0 else 1.0
        edits.append(Edit(deed="rollback" if rolls_back else "update", at_s=at_s, number=number, part=part))
    return Edition(wishes=wishes, edits=edits, works_s=chance.choice([0.0, 0.3, 3.0]), plan=_plan(seed, chance))


def _plan(seed: int, chance: random.Random) -> FaultPlan:
    if chance.randrange(6) == 0:
        return FaultPlan(network=CALM)
    network = drawn_network(seed, chance)
    return FaultPlan(network=network, faults=[_fault(chance) for _ in range(chance.randint(1, 5))])


def _fault(chance: random.Random) -> Fault:
    what: What = chance.choice(["kill", "kill", "kill", "kill", "freeze", "lose reply", "slow"])
    who = chance.choice(["session", "runner", "agents", "sender", "receiver"]) if what in ("kill", "freeze") else ""
    for_s = 10 ** chance.uniform(-1.7, 0.9)
    phase: Phase = chance.choice(["sent", "handled"])
    if chance.randrange(3) == 0 and who:
        return Fault(what=what, who=chance.choice(["session", "runner"]), after_s=chance.uniform(0, LASTS_S / 2), for_s=for_s)
    return Fault(what=what, who=who, kind=chance.choice(KINDS), nth=chance.randint(1, 8), phase=phase, for_s=for_s)
