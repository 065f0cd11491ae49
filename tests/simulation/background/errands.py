"""What errands are: agents that start others in the background and send each other messages, and what users do and goes wrong."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from actors.messages.config import OnDone
from tests.simulation.faults import (
    Fault,
    FaultPlan,
    What,
    failing_once,
    fault_plan,
    with_breaks,
    with_faults_at_writes,
    with_losses,
    with_slow_store,
)
from tests.simulation.steering.talk import Said, after_s

Deed = Literal["work", "start", "wait", "check", "steer", "cancel", "ask", "fail", "hand", "send", "hear"]

KINDS = (
    "StartRun",
    "FindRuns",
    "SteerRun",
    "CancelRun",
    "SendMessage",
    "ReadMessages",
    "FindReader",
    "NotifyRuns",
    "AwaitDue",
    "PassDueTime",
    "OpenTurn",
    "CloseTurn",
    "CancelTurn",
    "ResumeTurn",
    "Append",
)
"""Messages at which each seed may lose something besides."""

PLANS = 4
"""So many seeds share errands, and the play of them without faults."""

LONG_S = 300.0
"""So long an agent waits for its runs, which end before that."""


class Doing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of an agent.

    Attributes:
        to: the agent that is started, or sent a message.
        takes_s: of work, and of waiting.
        nth: which of the runs it has started it looks at, steers or cancels.
        on_done: what becomes of the end of a run that is started by code.
    """

    does: Deed
    to: str = ""
    takes_s: float = 0.0
    nth: int = 0
    on_done: OnDone = "speak"


class Hand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An LLM agent, and those that it has in the background, whose ends become of what `on_done` says. In its last step it may
    ask the desk. `pair`: it is two agents side by side instead, which send each other messages.
    """

    name: str
    steps: Sequence[Doing] = ()
    helpers: Sequence[Hand] = ()
    on_done: OnDone = "speak"
    thinks_s: float = 0.0
    pair: Sequence[Talker] = ()

    def all(self) -> list[Hand]:
        """It and all below it."""
        return [self, *(each for helper in self.helpers for each in helper.all())]


class Talker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A custom agent."""

    name: str
    steps: Sequence[Doing] = ()


class Nudge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program cancels or steers a run, if there are so many by then."""

    does: Literal["steer", "cancel"]
    at_s: float
    session: str = "s"
    nth: int = 0


class Errands(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is simulated.

    Attributes:
        chief: the root.
        desk: agents below it that send each other messages, side by side or one after the other. Where there are any the root
            hands over to them.
        beside: they run side by side.
        has_clerk: there is an LLM agent to which messages may be sent.
        groups: see Scenario.
    """

    chief: Hand
    desk: Sequence[Talker] = ()
    beside: bool = True
    has_clerk: bool = False
    said: Sequence[Said]
    nudges: Sequence[Nudge] = ()
    groups: int = 0
    plan: FaultPlan = FaultPlan()


def undisturbed(number: int) -> Errands:
    """Errands without faults."""
    chance = random.Random(f"errands {number}")
    beside, has_clerk = True, False
    desk: Sequence[Talker] = ()
    helpers = [_helper(chance, f"h{each}", depth=1) for each in range(chance.choice([1, 1, 2]))]
    if chance.random() < 0.6:
        has_clerk, beside = chance.random() < 0.4, chance.random() < 0.7
        desk = _desk(chance, "abc"[: chance.choice([2, 2, 3])], beside=beside, has_clerk=has_clerk, helpers=helpers)
    chief = Hand(name="chief", steps=_steps(chance, helpers), helpers=helpers, thinks_s=chance.choice([0.0, 0.01, 0.5]))
    if desk:
        chief = msgspec.structs.replace(chief, steps=[*chief.steps, Doing(does="hand", to="desk")])
    sessions = chance.choice([["s"], ["s"], ["r", "s"]])
    turns = [
        Said(
            turn=f"t{each}",
            session=session,
            at_s=after_s(chance) if each else 0.0,
            cancelled_after_s=after_s(chance) if chance.random() < 0.2 else 0.0,
        )
        for each, session in enumerate(chance.choice([sessions, sessions * 2]))
    ]
    steered = [
        Said(turn=f"m{each}", session=chance.choice(sessions), at_s=after_s(chance), steers=True, program=1)
        for each in range(chance.choice([0, 0, 1, 2]))
    ]
    nudges = [
        Nudge(
            does=chance.choice(["steer", "cancel"]),
            at_s=after_s(chance),
            session=chance.choice(sessions),
            nth=chance.randrange(3),
        )
        for _ in range(chance.choice([0, 1, 1, 2]))
    ]
    return Errands(
        chief=chief,
        desk=desk,
        beside=beside,
        has_clerk=has_clerk,
        said=[*turns, *steered],
        nudges=nudges,
        groups=chance.choice([0, 0, 1, 2]),
    )


def _helper(chance: random.Random, name: str, depth: int) -> Hand:
    on_done: OnDone = chance.choice(["speak", "speak", "speak", "wait", "state"])
    if chance.random() < 0.2:
        names = (f"{name}a", f"{name}b")
        return Hand(name=name, on_done=on_done, pair=_desk(chance, names, beside=True, has_clerk=False, helpers=()))
    helpers = [_helper(chance, f"{name}{each}", depth + 1) for each in range(chance.choice([0, 0, 1]) if depth < 3 else 0)]
    steps = [*_steps(chance, helpers), *_some(chance, 0.2, Doing(does="ask")), *_some(chance, 0.15, Doing(does="fail"))]
    return Hand(name=name, steps=steps, helpers=helpers, on_done=on_done, thinks_s=chance.choice([0.0, 0.01, 0.5]))


def _steps(chance: random.Random, helpers: Sequence[Hand]) -> list[Doing]:
    """Work, and what an agent does with others in the background."""
    steps = [_work(chance) for _ in range(chance.choice([0, 1, 1, 2]))]
    if not helpers:
        return steps
    for helper in helpers:
        for _ in range(chance.choice([1, 1, 2])):
            steps.insert(chance.randint(0, len(steps)), Doing(does="start", to=helper.name))
    for _ in range(chance.choice([0, 0, 1, 2])):
        does: Deed = chance.choice(["check", "steer", "cancel", "wait"])
        takes_s = chance.choice([LONG_S, LONG_S, 0.3]) if does == "wait" else 0.0
        steps.insert(chance.randint(1, len(steps)), Doing(does=does, takes_s=takes_s, nth=chance.randrange(2)))
    return steps


def _desk(
    chance: random.Random, names: Sequence[str], *, beside: bool, has_clerk: bool, helpers: Sequence[Hand]
) -> Sequence[Talker]:
    """Agents of which each hears as much as it was sent, and only what was sent before."""
    steps: dict[str, list[Doing]] = {name: [] for name in names}
    sent = dict.fromkeys(names, 0)
    order = [*names]
    for _ in range(chance.randint(2, 8)):
        sender = chance.choice(names)
        others = [name for name in names if name != sender] if beside else order[order.index(sender) + 1 :]
        others += ["clerk"] if has_clerk else []
        if chance.random() < 0.3:
            steps[sender].append(_work(chance))
        if helpers and chance.random() < 0.3:
            on_done: OnDone = chance.choice(["speak", "wait", "state"])
            steps[sender].append(Doing(does="start", to=chance.choice(helpers).name, on_done=on_done))
        if not others:
            continue
        to = chance.choice(others)
        steps[sender].append(Doing(does="send", to=to))
        if to in sent:
            sent[to] += 1
        hearer = chance.choice(names)
        if beside and sent[hearer]:
            sent[hearer] -= 1
            steps[hearer].append(Doing(does="hear"))
    for name, number in sent.items():
        steps[name] += [Doing(does="hear")] * number
    return [Talker(name=name, steps=of) for name, of in steps.items()]


def check_balance(talkers: Sequence[Talker]) -> None:
    """Raise ValueError if one of them would wait in vain."""
    for talker in talkers:
        sent = sum(step.to == talker.name for other in talkers for step in other.steps if step.does == "send")
        if sum(step.does == "hear" for step in talker.steps) > sent:
            raise ValueError(talker.name)


def _work(chance: random.Random) -> Doing:
    return Doing(does="work", takes_s=chance.choice([0.0, 0.02, 0.3, 2.0]))


def _some(chance: random.Random, share: float, step: Doing) -> Sequence[Doing]:
    return [step] if chance.random() < share else []


def disturbed(given: Errands, seed: int, messages: Mapping[str, int], moments: Mapping[str, int]) -> Errands:
    """The errands with the faults of a seed. `messages`, `moments`: see `fault_plan`."""
    names = [*(hand.name for hand in given.chief.all()), *(talker.name for talker in given.desk)]
    plan = with_faults_at_writes(fault_plan(seed, messages, moments, names), seed, moments)
    plan = with_breaks(with_losses(with_slow_store(plan, seed, messages), seed, messages), seed, messages)
    plan = failing_once(plan.adding(*_at_errands(seed, messages)))
    return msgspec.structs.replace(given, plan=plan)


def _at_errands(seed: int, messages: Mapping[str, int]) -> Sequence[Fault]:
    """What goes wrong at messages that errands add."""
    chance = random.Random(f"at errands {seed}")
    faults = []
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        what: What = chance.choice(["kill", "kill", "kill", "lose reply", "break", "slow", "commits fail", "store unsure"])
        kind = chance.choice(KINDS)
        faults.append(
            Fault(
                what=what,
                who=chance.choice(["session", "runner", "sender", "receiver"]) if what == "kill" else "",
                kind=kind,
                nth=chance.randint(1, max(3, messages.get(kind, 0))),
                phase=chance.choice(["sent", "handled"]),
                after_s=10 ** chance.uniform(-3.5, 0) if chance.random() < 0.4 and what not in ("lose reply", "slow") else 0.0,
                for_s=10 ** chance.uniform(-1.7, 0.5),
            )
        )
    return faults


@lru_cache(maxsize=8)
def shared(number: int) -> tuple[Errands, Mapping[str, int], Mapping[str, int]]:
    """Errands without faults, and how often each message and moment comes in them."""
    # The world plays errands, and their faults follow from a play of them.
    from tests.simulation.background.play import play

    left = play(made := undisturbed(number), number)
    return made, left.messages, left.moments


def errands(seed: int) -> Errands:
    """The errands of a seed; one in eight goes without faults."""
    made, messages, moments = shared(seed // PLANS)
    return made if seed % 8 == 7 else disturbed(made, seed, messages, moments)
