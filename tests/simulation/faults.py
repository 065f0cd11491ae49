"""What goes wrong in a simulation, and when: a list that can be printed, replayed and shortened."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Phase = Literal["sent", "handled"]
"""Of a message: it is on its way; or its receiver has dealt with it, and the reply is on its way."""

What = Literal[
    "kill",
    "replace",
    "freeze",
    "lose reply",
    "break",
    "slow",
    "store away",
    "store unsure",
    "commits fail",
    "commit conflicts",
    "store hangs",
    "commit breaks",
    "store fails",
]

PASSING = frozenset({"store away", "store unsure", "commits fail", "store hangs"})
"""Faults of the store that pass: what comes meanwhile is waited for, if the Session actor has the patience."""

AT_STORE = PASSING | {"commit conflicts", "commit breaks", "store fails"}
"""All faults of the store."""

COMMIT = "Commit"
"""A moment at which faults come as they do at messages: "sent" is before a transaction is done, "handled" before its caller knows
that it is. With a kind of write behind it, one at which such a write is done."""

FOLLOWING = "Following"
"""The moment at which a driver follows a turn in line: its sender is the driver that has put the turn there."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault.

    Attributes:
        what: a process is killed, or stopped for a while; the Session actor, or a Runner that has a standby, is replaced, and
            lives on for a while; the reply to a message gets lost, the connection breaks while that is dealt with, or it is slow;
            the store is away, or commits and then says that it is away; it can be read and not written; it refuses a commit since
            it has other events there; a call of it takes long, and is done at last; a commit fails in the midst of a statement;
            or all fail, and no caller waits.
        who: of a kill or a freeze: "session", "runner", "standby", "limiter", "agents" (all), "agent <name>", "driver", or
            "sender" and "receiver" of the message.
        kind: happens at a message of this class, or at a moment such as COMMIT; "": at a time.
        nth: at the so manyth message of that class.
        phase: of the message.
        after_s: seconds later. Without a message: after the fault before this one in the list, or after the start.
        unnoticed_s: of a lost reply: how long its sender waits for it.
        statement: in which a commit fails, from 1.
        for_s: how long it lasts; of a kill of the Session actor or the Runner: until it is started again.
    """

    what: What
    who: str = ""
    kind: str = ""
    nth: int = 0
    phase: Phase = "sent"
    after_s: float = 0.0
    for_s: float = 0.0
    unnoticed_s: float = 0.0
    statement: int = 0

    def __str__(self) -> str:
        where = f"{self.kind} {self.nth} {self.phase}" if self.kind else "the fault before"
        when = f"{self.after_s:.3f} s after {where}" if self.after_s or not self.kind else f"at {where}"
        return f"{self.what} {self.who}".strip() + f" {when}" + (f", for {self.for_s:.3f} s" if self.for_s else "")


def are_at_store(fired: Iterable[tuple[float, Fault]]) -> bool:
    """True if any of the faults that have happened is one of the store."""
    return any(fault.what in AT_STORE for _, fault in fired)


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """How long messages take.

    Attributes:
        brings_early: replies before the last one, as connections do, and calls of Ray's do not.
        seed: decides for each message.
        usual_s: the longest time of most messages.
        slow: one message in so many is slow; 0: none.
        slow_s: the longest time of a slow message.
    """

    brings_early: bool = False
    seed: int = 0
    usual_s: float = 0.001
    slow: int = 0
    slow_s: float = 0.0


def drawn_network(seed: int, chance: random.Random) -> Network:
    """A network by chance: one in two brings replies early, and one in two has slow messages."""
    return Network(
        brings_early=chance.randrange(2) == 0,
        seed=seed,
        usual_s=chance.choice([0.001, 0.005, 0.03]),
        slow=chance.choice([0, 0, 20, 6]),
        slow_s=chance.choice([0.05, 0.3, 1.5]),
    )


COMMIT_S = 0.002
"""The longest time that a call of most stores takes."""

SLOW_S = (0.02, 0.2)
"""The same of slow ones."""

PATIENT_S = 30.0
"""Longer than a fault of the store lasts: no request fails by one."""

CALM = Network()
"""Every message takes the same time."""


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that goes wrong in one simulation.

    Attributes:
        network: how long messages take.
        faults: one after the other, or at messages.
        store_s: the longest time that a call of the store takes.
        store_timeout_s: how long the Session actor waits for a store that is away; then its requests fail.
        has_standby: the Runner has two processes, of which one stands by.
    """

    network: Network = CALM
    faults: Sequence[Fault] = ()
    store_s: float = COMMIT_S
    store_timeout_s: float = PATIENT_S
    has_standby: bool = False

    def adding(self, *faults: Fault, **others: Any) -> FaultPlan:
        """The same with more faults behind these, and with other fields."""
        return msgspec.structs.replace(self, faults=[*self.faults, *faults], **others)


WHATS: Mapping[What, int] = {"kill": 60, "freeze": 14, "lose reply": 10, "slow": 10, "store away": 4, "store unsure": 2}
"""How often each happens."""

KINDS = {
    "Append": 6,
    "RunChild": 4,
    "Invoke": 4,
    "OpenTurn": 2,
    "StartTurn": 2,
    "CloseTurn": 2,
    "AbandonRuns": 3,
    "ResumeTurn": 2,
}
"""Classes of messages at which more happens than at others, and how much."""

AFTER_LOSSES = ("AbandonRuns", "ResumeTurn", "ListOpenTurns", "RecoverTurns", "Subscribe", "StopRun")
"""Messages that a run without faults need not have."""

STORE_FAULTS: Sequence[tuple[What, Phase, int]] = (
    ("kill", "sent", 5),
    ("kill", "handled", 4),
    ("commits fail", "sent", 3),
    ("store hangs", "sent", 2),
    ("commit conflicts", "sent", 1),
)
"""What happens at a commit, when, and how often. The Session actor is killed."""

FINAL_S = 0.9
"""So long at most a store fails with errors that are final: an end of a turn that fails so again a second later is given up."""

FINAL = frozenset({"commit breaks", "store fails", "commit conflicts"})
"""Faults of the store whose errors are final."""

AT_WRITES: Sequence[tuple[What, Phase, int]] = (
    ("commit breaks", "sent", 4),
    ("store fails", "sent", 4),
    ("commits fail", "sent", 2),
    ("store unsure", "sent", 3),
    ("kill", "sent", 3),
    ("kill", "handled", 4),
    ("replace", "handled", 1),
    ("commit conflicts", "sent", 1),
    ("store hangs", "sent", 1),
)
"""The same at a commit of a certain kind."""


def with_faults_at_writes(plan: FaultPlan, seed: int, moments: Mapping[str, int]) -> FaultPlan:
    """The plan with faults at commits of any kind, however rare that is.

    Args:
        moments: see `fault_plan`.
    """
    chance = random.Random(f"writes {seed}")
    kinds = sorted(kind for kind in moments if kind.startswith(f"{COMMIT} "))
    drawn = chance.choices(kinds, list(map(_weight, kinds)), k=chance.choice([0, 1, 1, 2]))
    faults = [_at_write(chance, kind, moments[kind]) for kind in drawn]
    if all(fault.what in FINAL for fault in faults):
        # The end of a turn that fails so twice is given up.
        del faults[1:]
    meanwhile = random.Random(f"meanwhile {seed}")
    with_losses = [each for fault in faults for each in (fault, *_loss_meanwhile(meanwhile, fault))]
    return plan.adding(*with_losses)


def with_breaks(plan: FaultPlan, seed: int, messages: Mapping[str, int]) -> FaultPlan:
    """The plan of some seeds with connections that break while a message is dealt with: the sender sends it again, or gives up.

    Args:
        messages: see `fault_plan`.
    """
    chance = random.Random(f"breaks {seed}")
    if chance.random() < 0.7:
        return plan
    kinds = sorted({*messages, "ResumeTurn", "RecoverTurns", "AbandonRuns"})
    kind = chance.choices(kinds, [KINDS.get(each, 1) for each in kinds])[0]
    nth = chance.randint(1, max(1, messages.get(kind, 0)))
    fault = Fault(what="break", kind=kind, nth=nth, after_s=10 ** chance.uniform(-3.5, -0.5))
    return plan.adding(fault)


def with_losses(plan: FaultPlan, seed: int, messages: Mapping[str, int]) -> FaultPlan:
    """The plan of some seeds with a Runner that has a standby, or is lost twice, or while the store takes nothing, with Session
    actors that outlive a loss, or with the loss of an agent that waits for another.

    Args:
        messages: see `fault_plan`.
    """
    chance = random.Random(f"heirs {seed}")
    match chance.choices(["standby", "replacement", "again", "waits", "store", ""], [15, 10, 10, 10, 10, 45])[0]:
        case "standby":
            made = with_standby(plan, seed)
            return next((each for each in (_with_ghost(made, chance), made) if _keeps_a_term(each)), plan)
        case "replacement":
            return with_replacements(plan)
        case "again":
            # Twice in a turn that goes on between.
            first = Fault(what="kill", who="runner", kind="Append", nth=chance.randint(1, 3), for_s=0.05)
            then = Fault(what="kill", who="runner", after_s=10 ** chance.uniform(-0.3, 0.8), for_s=0.05)
            return plan.adding(first, then)
        case "waits":
            # The process of an agent that has asked for another one's run.
            nth = chance.randint(1, max(1, messages.get("RunChild", 0)))
            after_s = 10 ** chance.uniform(-2, 0)
            fault = Fault(what="kill", who="sender", kind="RunChild", nth=nth, after_s=after_s)
            return plan.adding(fault)
        case "store":
            # What another Runner asks for to go on is stored at last.
            first = Fault(what="kill", who="runner", kind="Append", nth=chance.randint(1, 3), for_s=0.05)
            what: What = chance.choice(["commits fail", "store unsure"])
            then = Fault(what=what, after_s=10 ** chance.uniform(-3, -1), for_s=10 ** chance.uniform(0, 0.7))
            return plan.adding(first, then, store_timeout_s=0.5)
    return plan


def _keeps_a_term(plan: FaultPlan) -> bool:
    """False where a Runner that was replaced may be the only process that knows its term, and the clock of its heir is behind."""
    losses = [fault.what for fault in plan.faults if fault.who in ("runner", "session", "standby")]
    return len(losses) < 3 or "replace" not in losses


def _with_ghost(plan: FaultPlan, chance: random.Random) -> FaultPlan:
    """The plan, in two of three cases with a Runner that was replaced, and lives on long enough to meet a new Session actor."""
    if chance.random() < 0.33:
        return plan
    replaced = Fault(what="replace", who="runner", kind="Append", nth=chance.randint(1, 4), for_s=chance.uniform(2, 8))
    lost = Fault(what="kill", who="session", after_s=10 ** chance.uniform(-2.5, 0), for_s=10 ** chance.uniform(-1.7, -0.3))
    return plan.adding(replaced, lost)


def _loss_meanwhile(chance: random.Random, fault: Fault) -> Sequence[Fault]:
    """In two of three faults of the store that pass a process is lost before they have passed."""
    if fault.what not in PASSING or chance.random() < 0.33:
        return ()
    who = chance.choice(["agents", "agents", "session", "runner"])
    after_s = fault.for_s * chance.random() ** 2
    return [Fault(what="kill", who=who, after_s=after_s, for_s=10 ** chance.uniform(-1.7, 0.5))]


def _weight(kind: str) -> int:
    """What begins again, or is cancelled, that was over or paused is done in few scenarios."""
    return 4 if "PutTurn" in kind and " running>" not in kind and " >" not in kind else 1


def with_slow_store(plan: FaultPlan, seed: int, messages: Mapping[str, int]) -> FaultPlan:
    """The plan of some seeds with a store that takes its time, so that more happens while something is being stored.

    Args:
        messages: see `fault_plan`.
    """
    chance = random.Random(f"slow store {seed}")
    if chance.random() < 0.8:
        return plan
    what: What = chance.choice(["kill", "kill", "replace", "freeze", "commits fail", "store fails"])
    who = "" if what in AT_STORE else "session"
    nth, after_s, for_s = chance.randint(1, messages["OpenTurn"]), 10 ** chance.uniform(-3.5, -1), 10 ** chance.uniform(-1.7, 0)
    fault = Fault(what=what, who=who, kind="OpenTurn", nth=nth, after_s=after_s, for_s=min(for_s, FINAL_S))
    network = msgspec.structs.replace(plan.network, brings_early=plan.network.brings_early or chance.random() < 0.5)
    store_s = chance.choice(SLOW_S)
    return plan.adding(fault, network=network, store_s=store_s)


def with_lost_answers(plan: FaultPlan, seed: int, messages: Mapping[str, int]) -> FaultPlan:
    """The plan of some seeds with an agent, or the Session actor, that is lost in the midst of a streamed answer.

    Args:
        messages: see `fault_plan`.
    """
    chance = random.Random(f"lost answers {seed}")
    pieces = messages.get("TellPartial", 0)
    if not pieces or chance.random() < 0.4:
        return plan
    fault = Fault(
        what="kill",
        who=chance.choice(["sender", "sender", "receiver"]),
        kind="TellPartial",
        nth=chance.randint(1, pieces),
        phase="handled",
        after_s=chance.choice([0.0, 0.01, 0.03]),
        for_s=10 ** chance.uniform(-1.7, 0),
    )
    return plan.adding(fault)


def _at_write(chance: random.Random, kind: str, often: int) -> Fault:
    what, phase, _ = chance.choices(AT_WRITES, [weight for _, _, weight in AT_WRITES])[0]
    who = "session" if what in ("kill", "replace") else ""
    for_s, nth = 10 ** chance.uniform(-1.7, 0.9), chance.randint(1, often)
    if what == "store fails":
        for_s = min(for_s, FINAL_S)
    statement = chance.randint(1, 6) if what == "commit breaks" else 0
    return Fault(what=what, who=who, kind=kind, nth=nth, phase=phase, for_s=for_s, statement=statement)


def fault_plan(seed: int, messages: Mapping[str, int], moments: Mapping[str, int], agents: Sequence[str]) -> FaultPlan:
    """The faults of a seed.

    Args:
        messages: how many messages of each class a run without faults has.
        moments: how often each moment comes in one.
        agents: their names.
    """
    chance = random.Random(f"faults {seed}")
    network = Network(
        brings_early=seed % 5 in (0, 3),
        seed=seed,
        usual_s=chance.choice([0.001, 0.001, 0.005, 0.03]),
        slow=chance.choice([0, 0, 30, 10, 4]),
        slow_s=chance.choice([0.05, 0.3, 1.5]),
    )
    number = chance.choice([1, 1, 2, 2, 2, 3, 4]) if network.slow else chance.choice([1, 2, 2, 3, 3, 4])
    faults: list[Fault] = []
    for _ in range(number):
        faults.append(_fault(chance, messages, agents, follows=bool(faults)))
    at_store = random.Random(f"faults of the store {seed}")
    if at_store.random() < 0.5:
        faults.append(_store_fault(at_store, moments[COMMIT]))
    if FOLLOWING in moments and at_store.random() < 0.75:
        for_s = 10 ** at_store.uniform(-1.7, 0.9)
        faults.append(Fault(what="kill", who="sender", kind=FOLLOWING, nth=1, after_s=10 ** at_store.uniform(-3, 0)))
        faults.append(Fault(what="kill", who="runner", after_s=10 ** at_store.uniform(-3, 0.3), for_s=for_s))
    return FaultPlan(network=network, faults=faults, store_timeout_s=at_store.choice([PATIENT_S, PATIENT_S, 0.5]))


def _store_fault(chance: random.Random, commits: int) -> Fault:
    what, phase, _ = chance.choices(STORE_FAULTS, [often for _, _, often in STORE_FAULTS])[0]
    for_s = 10 ** chance.uniform(-1.7, 0.9)
    who = "session" if what == "kill" else ""
    return Fault(what=what, who=who, kind=COMMIT, nth=chance.randint(1, commits + 1), phase=phase, for_s=for_s)


def failing_once(plan: FaultPlan) -> FaultPlan:
    """The plan with a store that fails for good once at most: what it did not take is tried again once, and may be then."""
    fails = [each for each in plan.faults if each.what == "store fails"]
    return msgspec.structs.replace(plan, faults=[each for each in plan.faults if each not in fails[1:]])


def with_replacements(plan: FaultPlan) -> FaultPlan:
    """The plan with a Session actor that lives on beside its heir, where in this one it is killed."""
    return msgspec.structs.replace(plan, faults=[_replacement(each) for each in plan.faults])


def with_standby(plan: FaultPlan, seed: int) -> FaultPlan:
    """The plan with a Runner that has a standby, which takes the place of some that live on for a while.

    Where the plan loses no Runner, this one does so early.
    """
    chance = random.Random(f"standby {seed}")
    faults = [
        msgspec.structs.replace(each, what="replace") if each.who == "runner" and chance.random() < 0.5 else each
        for each in plan.faults
    ]
    if not any(each.who == "runner" for each in faults):
        what: What = chance.choice(["kill", "replace"])
        for_s = 10 ** chance.uniform(-1.7, 0.9)
        faults = [*faults, Fault(what=what, who="runner", kind="Append", nth=chance.randint(1, 3), for_s=for_s)]
    if chance.random() < 0.5:
        # The process that has just taken the place is lost, too, or the Session actor, which forgets the terms.
        who = chance.choice(["runner", "session", "standby"])
        faults = [
            *faults,
            Fault(what="kill", who=who, after_s=10 ** chance.uniform(-3, 0.3), for_s=10 ** chance.uniform(-1.7, 0.9)),
        ]
    return msgspec.structs.replace(plan, faults=faults, has_standby=True)


def _replacement(fault: Fault) -> Fault:
    is_loss = fault.what == "kill" and fault.who == "session"
    return msgspec.structs.replace(fault, what="replace") if is_loss else fault


def _fault(chance: random.Random, messages: Mapping[str, int], agents: Sequence[str], *, follows: bool) -> Fault:
    what = chance.choices(list(WHATS), list(WHATS.values()))[0]
    who = ""
    if what in ("kill", "freeze"):
        some = f"agent {chance.choice(agents)}"
        whos = ["session", "runner", "agents", "sender", "receiver", some, "driver"]
        who = chance.choices(whos, [5, 3, 2, 3, 3, 6, 1])[0]
    for_s = 10 ** chance.uniform(-1.7, 0.9 if what != "slow" else 0.5)
    if follows and chance.random() < 0.55 and what not in ("lose reply", "slow"):
        return Fault(what=what, who=who, after_s=10 ** chance.uniform(-3, 0.9), for_s=for_s)
    counts = {**dict.fromkeys(AFTER_LOSSES, 0), **messages}
    kinds = sorted(counts)
    kind = chance.choices(kinds, [KINDS.get(each, 1) for each in kinds])[0]
    nth = chance.randint(1, counts[kind] + (2 if kind in AFTER_LOSSES else 1))
    phase: Phase = chance.choice(["sent", "handled"])
    after_s = 10 ** chance.uniform(-3.5, 0) if chance.random() < 0.4 and what not in ("lose reply", "slow") else 0.0
    return Fault(what=what, who=who, kind=kind, nth=nth, phase=phase, after_s=after_s, for_s=for_s)
