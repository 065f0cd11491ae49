"""Trees in which much comes together that random trees have seldom: each is small, and its details are random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from tests.simulation.scenarios import Does, Kind, Node, Step

WORK: list[Does] = ["work"]


def drawn_tree(chance: random.Random) -> Node:
    """One of the trees of this file."""
    trees: Sequence[Callable[[random.Random], Node]] = (_escalates_and_asks, _skips, _graph, _asks_experts)
    return chance.choice(trees)(chance)


def asking_tree(chance: random.Random) -> Node:
    """A tree that waits for the user: alone, before others, or in two places at once."""
    asks = [llm(chance, name, *WORK * chance.randint(0, 1), chance.choice(["ask", "confirm"])) for name in ("first", "second")]
    kind: Kind = chance.choice(["llm", "seq", "par"])
    return asks[0] if kind == "llm" else Node(kind=kind, name="root", children=[*asks, worker(chance, "last")])


def llm(chance: random.Random, name: str, *does: Does, **more: object) -> Node:
    """An LLM agent with a step for each of these words."""
    steps = [Step(does=each, takes_s=chance.choice([0.0, 0.02, 0.3, 2.0]) if each == "work" else 0.0) for each in does]
    node = Node(kind="llm", name=name, steps=steps, thinks_s=chance.choice([0.0, 0.01, 0.5]))
    return msgspec.structs.replace(node, **more)


def worker(chance: random.Random, name: str) -> Node:
    """An LLM agent that works, or only says something."""
    return llm(chance, name, *WORK * chance.randint(0, 2))


def _escalates_and_asks(chance: random.Random) -> Node:
    """A loop whose parallel children escalate and wait for the user."""
    asks = llm(chance, "asks", *WORK * chance.randint(0, 1), chance.choice(["ask", "confirm"]))
    exits = llm(chance, "exits", *WORK * chance.randint(0, 1), "exit")
    children = [exits, asks, *([worker(chance, "works")] if chance.random() < 0.5 else [])]
    chance.shuffle(children)
    beside = Node(kind="par", name="beside", children=children)
    loop = Node(kind="loop", name="again", children=[beside, worker(chance, "last")], times=chance.randint(2, 3))
    if chance.random() < 0.5:
        return loop
    absorbing = msgspec.structs.replace(loop, absorbs=chance.random() < 0.5)
    return Node(kind="loop", name="outer", children=[absorbing, worker(chance, "after")], times=2)


def _skips(chance: random.Random) -> Node:
    """Parallel children of which one fails, and is skipped or begun again while others work."""
    fails = llm(chance, "fails", *WORK * chance.randint(0, 1), fails=chance.randint(1, 2))
    works = [llm(chance, f"works{number}", "work", "work") for number in range(chance.randint(1, 2))]
    beside = Node(kind="par", name="beside", children=[fails, *works], supervision="restart" if chance.random() < 0.3 else "skip")
    return Node(kind="loop" if chance.random() < 0.5 else "seq", name="root", children=[beside, worker(chance, "last")], times=2)


def _graph(chance: random.Random) -> Node:
    """A graph, one node after the other or side by side, whose nodes are tried again."""
    names = [f"node{number}" for number in range(chance.randint(2, 4))]
    children = [worker(chance, name) for name in names]
    place = chance.randrange(len(names))
    children[place] = llm(chance, names[place], *WORK * chance.randint(0, 1), fails=chance.randint(1, 2))
    if chance.random() < 0.3:
        children[-1] = llm(chance, names[-1], chance.choice(["ask", "confirm"]))
    graph = Node(kind="graph", name="graph", children=children, times=chance.randint(1, 2))
    return graph if chance.random() < 0.6 else Node(kind="seq", name="root", children=[graph, worker(chance, "last")])


def _asks_experts(chance: random.Random) -> Node:
    """An agent that asks others as tools, once or again, which work, ask others, or would wait for the user."""
    below = worker(chance, "below")
    boss = Node(kind="llm", name="boss", steps=[Step(does="expert", to="below")], experts=[below])
    experts = [worker(chance, "first"), chance.choice([boss, llm(chance, "second", "ask"), worker(chance, "second")])]
    asked = [each.name for each in experts] + [experts[0].name] * chance.randint(0, 1)
    steps = [Step(does="expert", to=name) for name in asked]
    steps.insert(chance.randint(0, len(steps)), Step(does="work", takes_s=0.02))
    return Node(kind="llm", name="root", steps=steps, experts=experts)
