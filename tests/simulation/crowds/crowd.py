"""What a crowd is: users who ask for many turns at about the same time, and a deployment that takes few. All of it follows from a
seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from actors.messages.config import Limits
from tests.simulation.faults import CALM, Fault, FaultPlan, Network
from tests.simulation.programs import Wish


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """A crowd, and what it meets.

    Attributes:
        wishes: in the order of their times.
        at_once: turns that a Runner opens at the same time.
        of_many: how many while more users wait than that; 0: no more.
        thinks_s: how long the agent takes for each turn.
        plan: what goes wrong.
    """

    wishes: Sequence[Wish]
    limits: Limits
    at_once: int
    of_many: int = 0
    thinks_s: float
    plan: FaultPlan

    @property
    def most_at_once(self) -> int:
        """Turns that a Runner opens at the same time, at most."""
        return max(self.at_once, self.of_many)


def crowd(seed: int) -> Crowd:
    """The crowd of a seed. Of three, one meets faults, and one has users of different weights."""
    if seed % 3 == 2:
        return _weighted(seed)
    chance = random.Random(f"crowd {seed}")
    wishes: list[Wish] = []
    for user in "abcd"[: chance.randint(2, 4)]:
        # One has much to ask at once, another one comes later and asks little.
        burst, comes_s = chance.choice([1, 3, 8, 14]), chance.choice([0.0, 0.0, 0.05, 0.5])
        sessions = [f"s{number}" for number in range(chance.randint(1, 3))]
        for number in range(burst):
            is_doubted = chance.randrange(6) == 0
            wishes.append(
                _wish(
                    user,
                    chance.choice(sessions),
                    number,
                    at_s=comes_s + chance.choice([0.0, 0.0, 0.01, 0.3]) * chance.random(),
                    again_after_s=chance.uniform(0.01, 1.0) if is_doubted else 0.0,
                    cancelled_after_s=chance.choice([0.003, 0.02, 0.2, 1.0]) * chance.random()
                    if chance.randrange(6) == 0
                    else 0.0,
                )
            )
    session, user_turns = chance.randint(2, 8), chance.randint(3, 12)
    limits = Limits(max_waiting_session_turns=session, max_waiting_user_turns=user_turns, max_waiting_turns=chance.randint(4, 30))
    return Crowd(
        wishes=sorted(wishes, key=lambda wish: wish.at_s),
        limits=limits,
        at_once=chance.choice([1, 1, 2, 64]),
        of_many=3 * (seed % 2),
        thinks_s=chance.choice([0.0, 0.01, 0.2]),
        plan=_plan(seed, chance),
    )


def _weighted(seed: int) -> Crowd:
    """Users of different weights, all of whom have more waiting than is taken of them in a few rounds.

    Nobody is refused, and of four crowds one has turns that are asked for again or cancelled, or faults.
    """
    chance = random.Random(f"weights {seed}")
    is_plain = chance.randrange(4) > 0
    users = "abcd"[: chance.randint(2, 4)]
    wishes: list[Wish] = []
    for user in users:
        sessions = [f"s{number}" for number in range(chance.randint(1, 3))]
        comes_s = chance.choice([0.0, 0.0, 0.004, 0.02])
        for number in range(chance.choice([2, 6, 10, 16])):
            is_doubted, is_cancelled = (not is_plain and chance.randrange(6) == 0 for _ in range(2))
            wishes.append(
                _wish(
                    user,
                    chance.choice(sessions),
                    number,
                    at_s=comes_s + chance.choice([0.0, 0.0, 0.01, 0.05]) * chance.random(),
                    again_after_s=chance.uniform(0.01, 1.0) if is_doubted else 0.0,
                    cancelled_after_s=0.2 * chance.random() if is_cancelled else 0.0,
                )
            )
    return Crowd(
        wishes=sorted(wishes, key=lambda wish: wish.at_s),
        limits=Limits(user_weights={user: chance.choice([1, 2, 3, 5]) for user in users if chance.randrange(4)}),
        at_once=chance.choice([1, 1, 2]),
        thinks_s=chance.choice([0.0, 0.01]),
        plan=FaultPlan(network=CALM) if is_plain else _plan(seed, chance),
    )


def _wish(user: str, session: str, number: int, **of: float) -> Wish:
    return Wish(turn=f"{user}-{session}-{number}", user=user, session=session, **of)


def _plan(seed: int, chance: random.Random) -> FaultPlan:
    if chance.randrange(3):
        return FaultPlan(network=CALM)
    faults = [
        Fault(
            what=chance.choice(["kill", "kill", "freeze"]),
            who=chance.choice(["runner", "session", "agents"]),
            after_s=chance.uniform(0.0, 0.5),
            for_s=chance.uniform(0.05, 1.0),
        )
        for _ in range(chance.randint(1, 2))
    ]
    return FaultPlan(network=Network(seed=seed, usual_s=0.002, slow=20, slow_s=0.05, brings_early=True), faults=faults)
