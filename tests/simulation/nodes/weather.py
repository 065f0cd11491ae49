"""What becomes of the nodes of a simulated cluster, and what its users ask for meanwhile."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from tests.simulation.faults import CALM, Network, drawn_network
from tests.simulation.workers import Task

What = Literal["comes", "drains", "ends"]

NOTICE_S = 10.0
"""The shortest notice by which all has to have left a node, where another one has room."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a node.

    Attributes:
        what: a node comes; one drains, and ends when its notice is over; or one ends without a notice.
        at_s: when.
        at_message: if not 0, as this many messages have been sent, wherever they go.
        whose: the node on which the Session actor, the Runner, its standby or most agents are; "any": one by chance.
        notice_s: from the notice to the end; 0: it has no time, and ends once nothing runs there.
    """

    what: What
    at_s: float = 0.0
    at_message: int = 0
    whose: Literal["session", "runner", "standby", "agents", "any"] = "any"
    notice_s: float = 0.0


class Asked(Task, frozen=True, kw_only=True):
    """A turn. `program`: which of the two programs asks."""

    program: int = 0


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes:
        nodes: the CPUs of each at the beginning, beside the head, which has none.
        hosts: how many processes with agents there may be.
        spares: how many stand ready without agents.
        standby: the Runner has one.
        outlives: a Session actor that leaves is taken for gone, and lives on beside the next one for a moment.
    """

    nodes: Sequence[int]
    changes: Sequence[Change]
    turns: Sequence[Asked]
    network: Network
    hosts: int = 4
    spares: int = 0
    standby: bool = False
    outlives: bool = False

    @property
    def is_mild(self) -> bool:
        """Nodes only come, or drain in good time, and messages take no time to speak of."""
        in_time = all(each.what == "comes" or (each.what == "drains" and each.notice_s >= NOTICE_S) for each in self.changes)
        return in_time and not self.network.slow


def weather(seed: int) -> Weather:
    """The weather of a seed."""
    chance = random.Random(f"weather {seed}")
    whose: Sequence[Literal["session", "runner", "standby", "agents", "any"]] = ("session", "runner", "standby", "agents", "any")
    is_mild = chance.random() < 0.4
    nodes = [chance.randint(1, 3) for _ in range(chance.randint(2, 4))]
    changes = []
    for _ in range(chance.randint(1, 5)):
        changes.append(
            Change(
                what=chance.choice(["comes", "drains", "drains", "drains" if is_mild else "ends"]),
                at_s=chance.uniform(0, 30),
                at_message=chance.randint(1, 300) if chance.random() < 0.4 else 0,
                whose=chance.choice(whose),
                notice_s=chance.choice([NOTICE_S, 15.0, 30.0] if is_mild else [0.0, 0.5, 3.0, NOTICE_S, 15.0]),
            )
        )
    turns = [
        Asked(
            turn=f"t{number}",
            at_s=chance.uniform(0, 35),
            program=chance.randrange(2),
            session=f"s{chance.randrange(6)}",
            takes_s=10 ** chance.uniform(-2, 0.7),
            has_expert=chance.random() < 0.6,
        )
        for number in range(chance.randint(6, 20))
    ]
    return Weather(
        nodes=nodes,
        changes=changes,
        turns=turns,
        network=CALM if is_mild else drawn_network(seed, chance),
        hosts=chance.choice([1, 2, 4, 8]),
        spares=chance.choice([0, 1, 2]),
        standby=chance.random() < 0.5,
        outlives=chance.random() < 0.3,
    )
