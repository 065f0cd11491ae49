"""Plain conversations of some length: agents that hand over in all directions, each with an instruction, and with manners.

Most of what can go wrong in the core is seen without any loss, if much is said: one in two goes without faults.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache

import msgspec

from tests.model.said import Tree
from tests.simulation.faults import Fault, FaultPlan, drawn_network
from tests.simulation.invariants import problems
from tests.simulation.play import NO_FAULTS, Result, play
from tests.simulation.scenarios import Act, Deed, Does, Kind, Manner, Node, Scenario, Step, pauses
from tests.simulation.simulate import PLANS, Case
from tests.support.inside import short_memory

MANNERS: Sequence[Manner] = ("brief", "stays", "alone", "keeps", "lists", "hooked")

STEPS: dict[Does, int] = {"work": 4, "note": 4, "murmur": 2, "break": 2, "trickle": 1, "ask": 2, "confirm": 2, "say": 1}
"""What agents do, and how often."""

BESIDE: Sequence[Deed] = ("again", "attach", "enqueue", "reject", "conflict", "repeat", "wrong", "wrong", "follow", "withdraw")
"""What is done while a turn runs, and does not disturb it."""

AFTERWARDS: Sequence[Deed] = ("elsewhere", "elsewhere", "note", "late", "late", "retry", "rewind", "fork", "archive", "cancel")

WHO: Mapping[str, Sequence[str]] = {
    "Append": ("sender", "sender", "session", "runner", "agents"),
    "Invoke": ("receiver", "runner"),
    "OpenTurn": ("session", "runner"),
    "StartTurn": ("runner", "session"),
    "CloseTurn": ("session", "runner"),
    "Poll": ("session",),
    "TellPartial": ("sender", "session"),
}
"""Who is lost at which messages."""


def conversation(number: int) -> Scenario:
    """A conversation."""
    chance = random.Random(f"conversation {number}")
    tree = Tree(_shape(chance))
    outputs = {node.name: f"{node.name}_out" for node in tree.nodes.values() if {"keeps", "lists"} & {*node.manners}}
    root = _scripted(chance, tree, tree.root, outputs)
    turns = [[_act(chance, BESIDE)] if chance.random() < 0.4 else [] for _ in range(chance.randint(3, 6))]
    names = [node.name for node in root.all() if root.kind == "llm" and not tree.is_tool(node.name)]
    waits = pauses(root) and chance.random() < 0.3
    return Scenario(
        root=root,
        turns=[[*acts, *(Act(deed=deed, after_s=0.0) for deed in _answers(chance))] for acts in turns],
        between=[[_act(chance, AFTERWARDS)] if chance.random() < 0.3 else [] for _ in turns],
        max_calls=chance.choice([0, 0, 0, 3, 5]),
        # A user thinks for longer than a turn may take.
        timeout_s=1.0 if waits else 0.0,
        thinks_s=2.0 if waits else 0.0,
        streams=chance.random() < 0.3,
        writes=True,
        shares=True,
        addressed=[chance.choice(names) if names and chance.random() < 0.15 else "" for _ in turns],
    )


def _answers(chance: random.Random) -> Sequence[Deed]:
    """How calls that wait are answered: one by one, or otherwise."""
    return chance.choice([(), (), (), ("together",), ("backwards",), ("together", "backwards"), ("leave",)])


def _act(chance: random.Random, deeds: Sequence[Deed]) -> Act:
    return Act(deed=chance.choice(deeds), after_s=10 ** chance.uniform(-3, -1), waits=True, share=chance.random())


def _shape(chance: random.Random) -> Node:
    """Agents with their manners, without scripts: one with others below it, alone or below a workflow agent."""
    grandchildren = [[_agent(chance, f"{name}{n}") for n in range(chance.choice([0, 0, 1, 2]))] for name in "abc"]
    experts = [_agent(chance, "expert")] if chance.random() < 0.3 else []
    children = [_agent(chance, name, children=below) for name, below in zip("abc", grandchildren, strict=True)]
    root = _agent(chance, "root", children=children[: chance.randint(1, 3)], experts=experts)
    kind: Kind = chance.choice(["llm", "llm", "llm", "llm", "llm", "seq", "loop", "loop", "par", "par", "custom"])
    if kind == "llm":
        return root
    below = [root, _agent(chance, "last"), Node(kind="says", name="says")]
    if kind == "par" and chance.random() < 0.6:
        pair = Node(kind="par", name="pair", children=below[1:])
        below = [root, Node(kind="seq", name="row", children=[_agent(chance, "first"), pair, _agent(chance, "after")])]
        return Node(kind=kind, name="flow", children=below)
    return Node(kind=kind, name="flow", children=below[: chance.randint(1, 3)], times=2, absorbs=chance.random() < 0.5)


def _agent(chance: random.Random, name: str, **more: Sequence[Node]) -> Node:
    manners = [manner for manner in MANNERS if chance.random() < (0.1 if manner in ("stays", "alone") else 0.25)]
    counts, pieces = chance.random() < 0.2, chance.choice([0, 2])
    return Node(kind="llm", name=name, manners=manners, counts=counts, pieces=pieces, **more)  # type: ignore[arg-type]


def _scripted(chance: random.Random, tree: Tree, node: Node, outputs: dict[str, str]) -> Node:
    """The tree below a node with scripts and instructions. One with an output is told nothing: what is told would be in what
    others are told, and grow, and an instruction with another one in it is not taken apart rightly."""
    below = [_scripted(chance, tree, child, outputs) for child in node.children]
    if node.kind != "llm":
        told = [f"{child.name}_asked" for child in node.children] if node.kind == "custom" else []
        return msgspec.structs.replace(
            node, children=below, told=[*told, *(f"{name}_noted" for name in tree.nodes)] if told else []
        )
    is_beside = tree.root.kind == "par" or tree.is_tool(node.name)
    told = ["asked_0", "asked_1", *([] if is_beside else [f"{tree.root.name}_noted", *outputs.values()])]
    return msgspec.structs.replace(
        node,
        children=below,
        experts=[_scripted(chance, tree, each, outputs) for each in node.experts],
        steps=list(_steps(chance, tree, node)),
        odd=list(_steps(chance, tree, node)),
        told=told if node.name not in outputs else (),
    )


def _steps(chance: random.Random, tree: Tree, node: Node) -> Iterator[Step]:
    if tree.root.kind == "loop" and chance.random() < 0.25:
        yield Step(does="escalate")
    for _ in range(chance.choice([0, 1, 1, 2])):
        does = chance.choices([*STEPS], [*STEPS.values()])[0]
        yield Step(does=does, often=2, takes_s=chance.choice([0.0, 0.02]))
    if node.experts and chance.random() < 0.6:
        yield Step(does="expert", to=node.experts[0].name)
    if chance.random() < 0.15:
        yield Step(does="transfer", to=chance.choice(["nobody", node.name, "a0"]))
    if (targets := tree.targets(node.name)) and chance.random() < 0.65:
        to = chance.choice(targets)
        # One that waits and is handed back to goes on when all that it has asked is answered: the model knows separate runs only.
        yield Step(does="transfer" if tree.targets(to) else "hand", to=to)
    elif tree.root.kind == "loop" and chance.random() < 0.3:
        yield Step(does="exit")


@lru_cache(maxsize=8)
def shared(number: int) -> tuple[Scenario, Result]:
    """A conversation, and what it leaves without faults."""
    made = conversation(number)
    return made, _play(made, NO_FAULTS, number)


def _play(made: Scenario, plan: FaultPlan, seed: int) -> Result:
    """In one of three a log soon becomes longer than what is kept of it in memory, and than what is read at once."""
    with nullcontext() if seed // PLANS % 3 else short_memory():
        return play(made, plan, seed)[0]


def case(seed: int) -> Case:
    """The case of a seed."""
    made, right = shared(seed // PLANS)
    return Case(seed, made, _losses(seed, right.messages) if seed % 2 else NO_FAULTS)


def _losses(seed: int, messages: Mapping[str, int]) -> FaultPlan:
    """Processes that are lost, or stopped for a while, and replies that are."""
    chance = random.Random(f"losses {seed}")
    faults = []
    for kind in chance.choices([*WHO], [6, 2, 2, 1, 1, 1, 2], k=chance.randint(1, 4)):
        faults.append(
            Fault(
                what=chance.choice(["kill", "kill", "kill", "kill", "lose reply", "freeze"]),
                who=chance.choice(WHO[kind]),
                kind=kind,
                nth=chance.randint(1, max(1, messages.get(kind, 0))),
                phase=chance.choice(["sent", "handled"]),
                after_s=chance.choice([0.0, 0.01]),
                for_s=10 ** chance.uniform(-1.7, 0),
            )
        )
    return FaultPlan(network=drawn_network(seed, chance), faults=faults)


def played(given: Case, _: int = 0) -> Result:
    """What a case leaves, with all that does not hold."""
    result = _play(given.scenario, given.plan, given.seed)
    return msgspec.structs.replace(result, problems=problems(given.scenario, result))
