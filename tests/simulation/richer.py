"""Trees of several agents that hand over, wait, fail, escalate and ask each other at the same time; their details are random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tests.simulation.scenarios import Does, Kind, Node, Scenario, Step
from tests.simulation.trees import WORK, llm, worker

ASK: list[Does] = ["ask"]
CONFIRM: list[Does] = ["confirm"]
WAITS: Sequence[list[Does]] = ([], ASK, CONFIRM)

OFTEN = 0.6
"""How many scenarios with people in them get such a tree."""


def enriched(made: Scenario, number: int) -> Scenario:
    """A scenario with a tree of this file, or the scenario as it was."""
    chance = random.Random(f"richer {number}")
    if chance.random() >= OFTEN:
        return made
    trees: Sequence[Callable[[random.Random], Node]] = (
        _hands_over,
        _escalates_and_fails,
        _waits_beside_failures,
        _asks_beside,
        _late,
        _flow,
    )
    root = chance.choice(trees)(chance)
    made = msgspec.structs.replace(made, root=root)
    if root.kind == "flow" and chance.random() < 0.5:
        return msgspec.structs.replace(made, max_calls=chance.randint(2, 2 * len(root.tasks)))
    return made


def _hands_over(chance: random.Random) -> Node:
    """An agent that hands over, maybe while a call of it waits for the user; as the root, or below a workflow agent."""
    helper = llm(chance, "helper", *WORK * chance.randint(0, 1), *chance.choice(WAITS))
    steps = [Step(does=chance.choice(["hand", "hand", "transfer"]), to="helper")]
    steps = [Step(does="work", takes_s=0.02)] * chance.randint(0, 1) + steps + [Step(does="work")] * chance.randint(0, 2)
    desk = Node(kind="llm", name="desk", steps=steps, children=[helper], thinks_s=chance.choice([0.0, 0.5]))
    kind: Kind = chance.choice(["llm", "seq", "seq", "loop", "par", "custom"])
    if kind == "llm":
        return desk
    children = [desk, worker(chance, "last")]
    if chance.random() < 0.5:
        chance.shuffle(children)
    return Node(kind=kind, name="root", children=children, times=chance.randint(1, 2))


def _escalates_and_fails(chance: random.Random) -> Node:
    """A loop with children that escalate and fail afterwards, and are skipped or begun again."""
    strategy: Literal["skip", "restart"] = chance.choice(["skip", "restart"])
    if strategy == "restart" or chance.random() < 0.5:
        exits, fails = llm(chance, "exits", "exit"), llm(chance, "fails", fails=chance.randint(1, 2))
        child = Node(kind="seq", name="both", children=[exits, fails])
    else:
        # It fails for ever.
        child = llm(chance, "both", "escalate", *WORK * chance.randint(0, 1), "fail")
    loop = Node(
        kind="loop",
        name="again",
        children=[child, worker(chance, "last")],
        times=2,
        supervision=strategy,
        absorbs=chance.random() < 0.3,
    )
    return loop if chance.random() < 0.5 else Node(kind="seq", name="root", children=[loop, worker(chance, "after")])


def _waits_beside_failures(chance: random.Random) -> Node:
    """Parallel children that wait for the user, fail and escalate, and are begun again or skipped."""
    fails = llm(chance, "fails", *WORK * chance.randint(0, 1), fails=chance.randint(1, 2))
    asks = llm(chance, "asks", *WORK * chance.randint(0, 1), chance.choice(["ask", "confirm"]), "work")
    other = chance.choice([worker(chance, "works"), llm(chance, "asks2", "ask"), llm(chance, "exits", "work", "escalate")])
    children = [fails, asks, other]
    chance.shuffle(children)
    beside = Node(kind="par", name="beside", children=children, supervision=chance.choice(["restart", "restart", "skip"]))
    kind: Kind = chance.choice(["seq", "loop"])
    return Node(kind=kind, name="root", children=[beside, worker(chance, "last")], times=chance.randint(1, 2))


def _asks_beside(chance: random.Random) -> Node:
    """An agent with calls of one response that end one after the other, and with agents as tools beside other calls."""
    experts = [worker(chance, "first"), llm(chance, "second", *chance.choice([WORK, 2 * WORK, ASK]))]
    if chance.random() < 0.3:
        experts = [Node(kind="seq", name="both", children=experts)]
    names = " ".join(each.name for each in experts)
    steps = [
        Step(does="experts", to=names, takes_s=chance.choice([0.02, 2.0, 4.0])),
        Step(does="trickle", often=chance.randint(2, 4), takes_s=chance.choice([0.06, 0.3])),
        Step(does="work", often=2, takes_s=chance.choice([0.02, 0.3])),
    ]
    chance.shuffle(steps)
    asks = Node(kind="llm", name="asks", steps=steps[: chance.randint(2, 3)], experts=experts)
    kind: Kind = chance.choice(["llm", "seq", "par"])
    return asks if kind == "llm" else Node(kind=kind, name="root", children=[asks, worker(chance, "beside")])


def _late(chance: random.Random) -> Node:
    """An agent that takes too long, maybe behind a transfer: below a custom agent, in a graph, or as a tool beside others."""
    late = llm(chance, "late", "work", fails=chance.choice([1, 2, 9]), is_late=True)
    last = worker(chance, "last")
    match chance.choice(["custom", "graph", "tool"]):
        case "graph":
            late = msgspec.structs.replace(late, fails=1)
            children = [worker(chance, "first"), late, last]
            chance.shuffle(children)
            return Node(kind="graph", name="graph", children=children, times=chance.randint(1, 2))
        case "custom":
            desk = llm(chance, "desk", *WORK * chance.randint(0, 1), children=[late])
            desk = msgspec.structs.replace(desk, steps=[*desk.steps, Step(does="transfer", to="late")])
            custom = Node(kind="custom", name="custom", children=[chance.choice([desk, desk, late])])
            return Node(kind="seq", name="root", children=[custom, last, llm(chance, "slow", "work", "linger")])
    slow = llm(chance, "slow", "linger", "linger", "linger")
    asks = [Step(does="experts", to="late slow", takes_s=2.0), Step(does="work")]
    return Node(kind="llm", name="root", steps=asks[: chance.randint(1, 2)], experts=[late, slow])


def _flow(chance: random.Random) -> Node:
    """A flow of which much runs side by side."""
    tasks: list[tuple[int, ...]] = [() for _ in range(chance.randint(2, 3))]
    tasks += [tuple(n for n in range(len(tasks)) if chance.random() < 0.5) for _ in range(chance.randint(0, 2))]
    return Node(kind="flow", name="flow", tasks=tasks)
