"""Who meets whom: users whose turns think or work, and users whose turns end the process in which they run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

import msgspec

Does = Literal["think", "work", "crash", "crash in callback", "crash in expert"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One user's turn.

    Attributes:
        at_s: when it is asked for.
        does: waits for its model, runs a tool; or ends the process in a tool, in a callback, or in an agent that is a tool.
        takes_s: for so long; or until the end of the process.
        takes: who is lost together with the process.
        often: the tool is called so often at once.
    """

    at_s: float
    does: Does
    takes_s: float
    takes: Sequence[Literal["runner", "session"]] = ()
    often: int = 1

    @property
    def is_poisoned(self) -> bool:
        """It ends the process in which it runs."""
        return self.does.startswith("crash")


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes:
        turns: of users of their own.
        groups: agents live in so many processes; 0: each in its own.
        lost: processes that are lost besides: when, and which.
    """

    turns: Sequence[Asked]
    groups: int
    lost: Sequence[tuple[float, Literal["agents", "runner", "session"]]] = ()


def crowd(seed: int) -> Crowd:
    """The crowd of a seed. Two in three have no other losses."""
    chance = random.Random(f"crowd {seed}")

    def asked(does: Sequence[Does], longest_s: float, takes: Sequence[Sequence[Literal["runner", "session"]]] = ((),)) -> Asked:
        takes_s = 10 ** chance.uniform(-2, longest_s)
        return Asked(
            at_s=chance.uniform(0, 4),
            does=chance.choice(does),
            takes_s=takes_s,
            takes=chance.choice(takes),
            often=chance.choice([1, 1, 3]),
        )

    along: Sequence[Sequence[Literal["runner", "session"]]] = ((), (), ("runner",), ("runner", "session"), ("session",))
    innocent = [asked(["think", "work", "work"], 0.8) for _ in range(chance.randint(3, 8))]
    poisoned = [
        asked(["crash", "crash", "crash in callback", "crash in expert"], 0.6, along) for _ in range(chance.randint(1, 2))
    ]
    lost = (
        [] if chance.randrange(3) else [(chance.uniform(0, 6), chance.choice(["agents", "runner", "session"])) for _ in range(2)]
    )
    return Crowd(turns=[*innocent, *poisoned], groups=chance.choice([0, 1, 1]), lost=lost)  # type: ignore[arg-type]
