"""What a timetable is: schedules of users, what users do meanwhile, and what goes wrong. All of it follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import ceil
from typing import Literal

import msgspec

from actors.layers.stores.schedule import MISSED, MissedPolicy
from tests.simulation.faults import CALM, COMMIT, PATIENT_S, Fault, FaultPlan, Phase, What, drawn_network

LASTS_S = 100.0
"""Virtual seconds for which schedules make turns."""

KINDS = (
    "AwaitDue",
    "AwaitDue",
    "OpenTurn",
    "OpenTurn",
    "PassDueTime",
    "CreateSchedule",
    "ChangeSchedule",
    "Invoke",
    "Append",
    COMMIT,
)
"""Messages, and moments, at which something goes wrong; some more often than others."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that somebody wants.

    Attributes:
        every_s: between two due times; 0: there is one.
        at_s: of a single one, after the start.
        paused_s, resumed_s, deleted_s: when that is asked for, after the start; 0: never.
        again_s: how long after it was deleted one of its name is created; 0: none is.
        moves: that one is of another session.
    """

    name: str
    session: str
    every_s: int = 0
    at_s: float = 0.0
    missed: MissedPolicy = "once"
    paused_s: float = 0.0
    resumed_s: float = 0.0
    deleted_s: float = 0.0
    again_s: float = 0.0
    moves: bool = False

    @property
    def is_left_alone(self) -> bool:
        """It is neither paused nor deleted."""
        return not self.paused_s and not self.deleted_s

    @property
    def successor(self) -> Wanted:
        """The schedule that is created when it was deleted."""
        session = f"{self.session} then" if self.moves else self.session
        at_s = max(0.0, self.at_s - self.deleted_s - self.again_s)
        return msgspec.structs.replace(self, session=session, at_s=at_s, deleted_s=0.0, again_s=0.0)


class Clear(msgspec.Struct, frozen=True, kw_only=True):
    """A user takes back the first turn of a session that ends after a time, or deletes the session then."""

    session: str
    from_s: float
    what: Literal["rewind", "delete"]


class Timetable(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules, and what they meet.

    Attributes:
        thinks_s: how long the agent takes for each turn.
        talks: when users send messages of their own, and to which sessions.
        clears: when users take back the next turn of a session, or delete the session, as soon as the turn has ended.
        plan: what goes wrong.
    """

    wanted: Sequence[Wanted]
    thinks_s: float
    talks: Sequence[tuple[float, str]]
    clears: Sequence[Clear]
    plan: FaultPlan


def timetable(seed: int) -> Timetable:
    """The timetable of a seed."""
    chance = random.Random(f"timetable {seed}")
    wanted = [_wanted(chance, number) for number in range(chance.randint(1, 4))]
    made = Timetable(
        wanted=wanted,
        thinks_s=chance.choice([0.0, 0.0, 0.3, 4.0, 15.0]),
        talks=[(chance.uniform(0, LASTS_S), chance.choice(wanted).session) for _ in range(chance.choice([0, 0, 1, 3]))],
        clears=(),
        plan=_plan(seed, chance),
    )
    changes = random.Random(f"changes {seed}")
    made = msgspec.structs.replace(made, wanted=[_with_changes(each, changes) for each in wanted])
    return _with_clears(made, random.Random(f"clears {seed}"))


def _with_changes(wanted: Wanted, chance: random.Random) -> Wanted:
    """A schedule that is perhaps changed just as its turn begins, and has a successor if it is deleted."""
    if wanted.paused_s and chance.random() < 0.7:
        paused_s = _just_due_s(wanted, wanted.paused_s, chance)
        for_s = 10 ** chance.uniform(-3, 0) if chance.random() < 0.5 else wanted.resumed_s - wanted.paused_s
        return msgspec.structs.replace(wanted, paused_s=paused_s, resumed_s=paused_s + for_s if wanted.resumed_s else 0.0)
    if not wanted.deleted_s or chance.random() < 0.3:
        return wanted
    deleted_s = _just_due_s(wanted, wanted.deleted_s, chance)
    return msgspec.structs.replace(wanted, deleted_s=deleted_s, again_s=10 ** chance.uniform(-3, 1), moves=chance.random() < 0.5)


def _just_due_s(wanted: Wanted, from_s: float, chance: random.Random) -> float:
    """Just after the first due time from a moment on, or after the only one."""
    due_s = ceil(from_s / wanted.every_s) * wanted.every_s if wanted.every_s else int(wanted.at_s) + 1
    return due_s + 10 ** chance.uniform(-3, -0.5)


def _with_clears(made: Timetable, chance: random.Random) -> Timetable:
    """The timetable of every second seed with sessions that are cleared, and replies that are lost meanwhile."""
    if chance.random() < 0.5:
        return made
    clears = [
        Clear(
            session=chance.choice(made.wanted).session,
            from_s=chance.uniform(0, LASTS_S / 2),
            what="rewind" if chance.random() < 0.5 else "delete",
        )
        for _ in range(3)
    ]
    lost = [
        Fault(what="lose reply", kind="OpenTurn", nth=chance.randint(1, 12), phase="handled", unnoticed_s=chance.uniform(0.1, 3))
        for _ in range(2)
    ]
    network = msgspec.structs.replace(made.plan.network, brings_early=True)
    plan = made.plan.adding(*lost, network=network)
    return msgspec.structs.replace(made, clears=clears, plan=plan)


def _wanted(chance: random.Random, number: int) -> Wanted:
    paused_s = chance.uniform(5, LASTS_S) if chance.randrange(5) == 0 else 0.0
    repeats = chance.randrange(5) > 0
    return Wanted(
        name=f"n{number}",
        session=chance.choice(["s0", f"s{number}"]),
        every_s=chance.choice([10, 13, 25]) if repeats else 0,
        at_s=0.0 if repeats else chance.uniform(1, LASTS_S),
        missed=chance.choice(MISSED),
        paused_s=paused_s,
        resumed_s=paused_s + chance.uniform(1, 30) if paused_s and chance.randrange(2) else 0.0,
        deleted_s=chance.uniform(5, LASTS_S) if not paused_s and chance.randrange(5) == 0 else 0.0,
    )


def _plan(seed: int, chance: random.Random) -> FaultPlan:
    if chance.randrange(6) == 0:
        return FaultPlan(network=CALM)
    network = drawn_network(seed, chance)
    faults = [_fault(chance) for _ in range(chance.randint(1, 5))]
    return FaultPlan(network=network, faults=faults, store_timeout_s=chance.choice([PATIENT_S, PATIENT_S, 0.5]))


def _fault(chance: random.Random) -> Fault:
    what: What = chance.choice(["kill", "kill", "kill", "replace", "freeze", "lose reply", "slow", "store away", "store hangs"])
    who = chance.choice(["session", "runner", "agents", "sender", "receiver"]) if what in ("kill", "freeze") else ""
    for_s = 10 ** chance.uniform(-1.7, 0.9)
    phase: Phase = chance.choice(["sent", "handled"])
    if chance.randrange(4) == 0 and what not in ("lose reply", "slow"):
        who = chance.choice(["session", "runner"]) if who else ""
        return Fault(what=what, who=who, after_s=chance.uniform(0, LASTS_S / 2), for_s=for_s)
    after_s = 10 ** chance.uniform(-3.5, 0) if chance.randrange(3) == 0 and what not in ("lose reply", "slow") else 0.0
    return Fault(
        what=what, who=who, kind=chance.choice(KINDS), nth=chance.randint(1, 12), phase=phase, after_s=after_s, for_s=for_s
    )
