"""What a simulation of moves is: stores, users who talk, programs that move them, and how often something goes wrong.

All of it follows from a seed.
"""

from __future__ import annotations

import random

import msgspec

from tests.simulation.faults import COMMIT_S, SLOW_S, Network, drawn_network

PATIENCE_S = (0.5, 5.0, 100.0)
"""How long a program waits for a user, one of these."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A simulation.

    Attributes:
        stores, users, movers: how many there are.
        moves: how many moves all programs try together.
        talks: how many things each user does.
        network: how long messages take.
        fault: how likely something goes wrong at each message of a move, when it is sent and when it was handled.
        late: how likely such a message is late by up to two minutes, longer than any hold.
        is_unsure: stores may say for a while that they have failed in what they have done.
        store_s: the longest time that a call of a store takes.
        spoil: how likely something else changes a row of the user, or the other store loses a part, in the midst of a move.
    """

    stores: int
    users: int
    movers: int
    moves: int
    talks: int
    network: Network
    fault: float
    late: float
    is_unsure: bool
    store_s: float
    spoil: float


def plan(seed: int) -> Plan:
    """The simulation of a seed."""
    chance = random.Random(f"moves {seed}")
    is_calm = chance.randrange(5) == 0
    return Plan(
        stores=chance.choice([2, 3, 3]),
        users=chance.choice([1, 1, 2]),
        movers=chance.choice([2, 2, 3]),
        moves=20,
        talks=chance.choice([8, 15]),
        network=drawn_network(seed, chance),
        fault=0.0 if is_calm else chance.choice([0.01, 0.03, 0.06]),
        late=0.0 if is_calm else chance.choice([0.0, 0.01, 0.03]),
        is_unsure=chance.randrange(3) == 0,
        store_s=random.Random(f"stores {seed}").choice([COMMIT_S, COMMIT_S, *SLOW_S]),
        spoil=0.0 if is_calm else chance.choice([0.0, 0.0, 0.1]),
    )
