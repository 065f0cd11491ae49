"""What a talk is: a tree at work, turns that are asked for, messages to agents at work, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from tests.simulation.faults import (
    Fault,
    FaultPlan,
    What,
    failing_once,
    fault_plan,
    with_faults_at_writes,
    with_losses,
    with_slow_store,
)
from tests.simulation.programs import Wish
from tests.simulation.scenarios import Node, scenario
from tests.simulation.trees import drawn_tree

KINDS = ("FindReader", "ReadMessages", "NotifyRuns", "FindMessage", "AwaitDue", "PassDueTime", "StartTurn", "CloseTurn")
"""Messages at which each seed may lose something besides."""

PLANS = 4
"""So many seeds share a talk, and the play of it without faults."""


class Said(Wish, frozen=True, kw_only=True, omit_defaults=True):
    """A message.

    Attributes:
        steers: it is for an agent at work; else it waits in line.
        program: those of one number are sent by one program, while it lives; 0: by one of its own.
    """

    steers: bool = False
    program: int = 0

    @property
    def text(self) -> str:
        """It says which turn it begins, if it begins one."""
        return f"do {self.turn}"


class Talk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is simulated.

    Attributes:
        root: the tree.
        groups: see Scenario.
    """

    root: Node
    said: Sequence[Said]
    groups: int = 0
    plan: FaultPlan = FaultPlan()


def undisturbed(number: int) -> Talk:
    """A talk without faults."""
    chance = random.Random(f"talk {number}")
    made = scenario(number)
    root = drawn_tree(chance) if chance.random() < 0.25 else made.root
    sessions = chance.choice([["s"], ["s"], ["r", "s"]])
    turns = [
        Said(turn=f"t{each}", session=session, at_s=after_s(chance) if each else 0.0, cancelled_after_s=_seldom(chance, 0.2))
        for each, session in enumerate(chance.choice([sessions, sessions * 2]))
    ]
    messages = [_message(chance, each, chance.choice(sessions)) for each in range(chance.randint(1, 4))]
    again = [msgspec.structs.replace(each, at_s=each.at_s + after_s(chance)) for each in messages if chance.random() < 0.2]
    return Talk(root=root, said=[*turns, *messages, *again], groups=made.groups)


def _message(chance: random.Random, number: int, session: str) -> Said:
    return Said(
        turn=f"m{number}",
        session=session,
        at_s=after_s(chance),
        again_after_s=_seldom(chance, 0.25),
        steers=chance.random() < 0.9,
        program=chance.choice([0, 1, 1]),
    )


def after_s(chance: random.Random) -> float:
    """A few milliseconds to four seconds."""
    return 10 ** chance.uniform(-2.5, 0.6)


def _seldom(chance: random.Random, share: float) -> float:
    return after_s(chance) if chance.random() < share else 0.0


def disturbed(given: Talk, seed: int, messages: Mapping[str, int], moments: Mapping[str, int]) -> Talk:
    """The talk with the faults of a seed. `messages`, `moments`: see `fault_plan`."""
    plan = fault_plan(seed, messages, moments, [node.name for node in given.root.all()])
    plan = with_faults_at_writes(plan, seed, moments)
    plan = failing_once(with_losses(with_slow_store(plan, seed, messages), seed, messages))
    return msgspec.structs.replace(given, plan=plan.adding(*_at_steering(seed)))


def _at_steering(seed: int) -> Sequence[Fault]:
    """What goes wrong at messages that steering adds."""
    chance = random.Random(f"at steering {seed}")
    faults = []
    for _ in range(chance.choice([0, 1, 1, 2])):
        what: What = chance.choice(["kill", "kill", "kill", "lose reply", "break", "slow", "commits fail"])
        faults.append(
            Fault(
                what=what,
                who=chance.choice(["session", "runner", "sender", "receiver"]) if what == "kill" else "",
                kind=chance.choice(KINDS),
                nth=chance.randint(1, 4),
                phase=chance.choice(["sent", "handled"]),
                for_s=10 ** chance.uniform(-1.7, 0.5),
            )
        )
    return faults


@lru_cache(maxsize=8)
def shared(number: int) -> tuple[Talk, Mapping[str, int], Mapping[str, int]]:
    """A talk without faults, and how often each message and moment comes in it."""
    # The world plays talks, and a talk's faults follow from a play of it.
    from tests.simulation.steering.play import play

    left = play(made := undisturbed(number), number)
    return made, left.messages, left.moments


def talk(seed: int) -> Talk:
    """The talk of a seed; one in eight goes without faults."""
    made, messages, moments = shared(seed // PLANS)
    return made if seed % 8 == 7 else disturbed(made, seed, messages, moments)
