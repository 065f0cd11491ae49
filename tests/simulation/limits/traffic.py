"""What is played: turns whose agents share limited models, programs that change the limits meanwhile, and what goes wrong.

All of it follows from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from actors.layers.limiter.limits import ModelLimits
from tests.simulation.faults import CALM, Fault, FaultPlan, Phase, What, drawn_network
from tests.simulation.programs import Wish

LASTS_S = 60.0
"""Virtual seconds in which turns begin and limits are changed."""

LONG_S = 40.0
"""A call that takes so long outlives a stop by which leases end."""

MODELS = ("alpha", "beta-1", "beta-2")
NAMES = ("alpha", "beta-*", "beta-1")
"""What programs change: a model of the settings, a pattern of theirs, and a model that goes by it."""

KINDS = ("AcquirePermit", "AcquirePermit", "ReleasePermit", "RenewPermits", "ChangeModelLimits", "ChangeModelLimits", "Invoke")
"""Messages at which something goes wrong."""

DRAWN = ("max_concurrency", "requests_per_minute", "tokens_per_minute")
"""The fields that programs change."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a model that an agent makes. `fails`: so many attempts fail first."""

    takes_s: float
    tokens: int
    fails: int = 0


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and the calls of its model that it makes in each turn."""

    name: str
    model: str
    calls: Sequence[Call]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A program changes limits. `fields`: None resets them."""

    program: Literal["one", "two"]
    at_s: float
    name: str
    fields: Mapping[str, int | None] | None


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Turns and changes, and what they meet.

    Attributes:
        groups: agents live in so many processes; 0: each has one of its own.
    """

    settings: Mapping[str, Mapping[str, Any]]
    askers: Sequence[Asker]
    wishes: Sequence[Wish]
    changes: Sequence[Change]
    weights: Mapping[str, int]
    groups: int
    plan: FaultPlan

    @property
    def limits(self) -> Mapping[str, ModelLimits]:
        """The limits of the settings."""
        return {name: ModelLimits(**fields) for name, fields in self.settings.items()}

    @property
    def is_plain(self) -> bool:
        """Nothing goes wrong, and no call leaves the line before its turn or comes twice."""
        fails = any(call.fails for asker in self.askers for call in asker.calls)
        return not (self.plan.faults or fails or any(wish.cancelled_after_s for wish in self.wishes))


def traffic(seed: int) -> Traffic:
    """The traffic of a seed. One in three meets no faults."""
    chance = random.Random(f"traffic {seed}")
    meets_faults = bool(seed % 3)
    users = ["ada", "bob", "cleo"][: chance.randint(2, 3)]
    return Traffic(
        settings={"alpha": _fields(chance), "beta-*": _fields(chance)},
        askers=[
            _asker(chance, f"a{number}", LONG_S if seed % 5 == 0 else 12.0, fails=meets_faults)
            for number in range(chance.randint(1, 4))
        ],
        wishes=sorted(_wishes(chance, users, cancels=meets_faults), key=lambda wish: wish.at_s),
        changes=sorted(_changes(chance), key=lambda change: change.at_s),
        weights={user: chance.choice([2, 3]) for user in users if chance.randrange(3) == 0},
        groups=chance.choice([0, 0, 2]),
        plan=_plan(seed, chance) if meets_faults else FaultPlan(network=CALM),
    )


def _fields(chance: random.Random) -> dict[str, Any]:
    return {
        "max_concurrency": chance.choice([1, 1, 2, 3]),
        "requests_per_minute": chance.choice([None, None, 12, 30]),
        "tokens_per_minute": chance.choice([None, None, None, 400]),
        # Traffic does not stand still for want of repetitions.
        "retry_reserve": 1_000,
    }


def _asker(chance: random.Random, name: str, longest_s: float, *, fails: bool) -> Asker:
    calls = [
        Call(
            takes_s=chance.choice([0.0, 0.05, 0.5, 3.0, 3.0, longest_s]),
            tokens=chance.choice([1, 20, 90]),
            fails=chance.choice([0, 0, 0, 1, 2]) if fails else 0,
        )
        for _ in range(chance.randint(1, 3))
    ]
    return Asker(name=name, model=chance.choice(MODELS), calls=calls)


def _wishes(chance: random.Random, users: Sequence[str], *, cancels: bool) -> Iterator[Wish]:
    number = 0
    for user in users:
        # One has much to ask at once, another one comes later and asks little.
        burst, comes_s = chance.choice([1, 2, 5]), chance.choice([0.0, 0.0, 0.5, 10.0])
        for _ in range(burst):
            number += 1
            is_cancelled = cancels and not chance.randrange(6)
            session = f"s{chance.randint(1, 3)}"
            yield Wish(
                turn=f"{user}/{session}/{number}",
                user=user,
                session=session,
                at_s=comes_s + chance.choice([0.0, 0.01, 1.0, LASTS_S - 10.0]) * chance.random(),
                cancelled_after_s=chance.choice([0.02, 1.0, 8.0]) * chance.random() if is_cancelled else 0.0,
            )


def _changes(chance: random.Random) -> Iterator[Change]:
    for program in ("one", "two"):
        for _ in range(chance.choice([0, 1, 3, 6])):
            # Some come while one of the other program is under way.
            at_s = chance.choice([1.0, 5.0, chance.uniform(0, LASTS_S)])
            fields = None if chance.randrange(3) == 0 else _changed(chance)
            yield Change(program=program, at_s=at_s, name=chance.choice(NAMES), fields=fields)


def _changed(chance: random.Random) -> dict[str, int | None]:
    values = {"max_concurrency": [1, 2, 5, None], "requests_per_minute": [12, 40, None], "tokens_per_minute": [300, None]}
    return {name: chance.choice(values[name]) for name in chance.sample(DRAWN, chance.randint(1, 2))}


def _plan(seed: int, chance: random.Random) -> FaultPlan:
    network = drawn_network(seed, chance)
    return FaultPlan(network=network, faults=[_fault(chance) for _ in range(chance.randint(1, 4))])


def _fault(chance: random.Random) -> Fault:
    what: What = chance.choice(["kill", "kill", "kill", "freeze", "freeze", "lose reply", "slow"])
    takes_who = what in ("kill", "freeze")
    who = chance.choice(["limiter", "limiter", "limiter", "agents", "sender", "receiver", "runner"]) if takes_who else ""
    # Some are stopped for longer than a lease lasts.
    for_s = chance.uniform(16, 40) if what == "freeze" and chance.randrange(3) == 0 else 10 ** chance.uniform(-1.7, 1.2)
    if takes_who and who not in ("sender", "receiver") and chance.randrange(2):
        return Fault(what=what, who=who, after_s=chance.uniform(0, LASTS_S / 2), for_s=for_s)
    phase: Phase = chance.choice(["sent", "handled"])
    if what == "slow":
        for_s = min(for_s, 3.0)
    return Fault(what=what, who=who, kind=chance.choice(KINDS), nth=chance.randint(1, 12), phase=phase, for_s=for_s)
