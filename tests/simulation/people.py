"""What people do beside starting turns: they repeat and contradict requests, leave turns paused, retry, rewind, fork and delete.

It is added to a scenario by random numbers of its own, which leave the scenario as it was. Habits are added in the same way.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from tests.simulation.richer import enriched
from tests.simulation.scenarios import HARMLESS, Act, Deed, Node, Scenario, pauses
from tests.simulation.trees import asking_tree, drawn_tree

BESIDE: Sequence[tuple[Deed, float]] = (("conflict", 0.35), ("repeat", 0.25), ("elsewhere", 0.2))
"""What is done while a turn runs, and how likely."""

AFTERWARDS: Sequence[tuple[Deed, int]] = (
    ("retry", 4),
    ("rerun", 4),
    ("cancel", 2),
    ("late", 3),
    ("rewind", 3),
    ("fork", 2),
    ("delete", 2),
    ("prune", 1),
    ("archive", 2),
    ("note", 1),
    ("elsewhere", 1),
)
"""What is done when a turn is over, and how often."""

CHANGES: Sequence[Deed] = ("rewind", "rewind", "fork", "delete", "note", "archive")
"""What is done to a session, while a turn of it runs as well, and to a fork."""

STOPS: Sequence[Deed] = ("cancel", "cancel", "interrupt", "enqueue")
"""What is done about a turn that runs."""


def with_people(made: Scenario, number: int) -> Scenario:
    """A scenario with people in it. In some they do nothing, in others nothing that changes what the turns say."""
    chance = random.Random(f"people {number}")
    manner = chance.choices(["absent", "gentle", "rough"], [3, 4, 5])[0]
    if manner == "absent":
        return made
    if chance.random() < 0.25:
        made = msgspec.structs.replace(made, root=drawn_tree(chance))
    root, made = made.root, enriched(made, number)
    is_enriched = made.root is not root
    turns = [[*acts, *_beside(chance, made.root)] for acts in made.turns]
    if chance.random() < 0.25:
        made = msgspec.structs.replace(made, root=_streaming(chance, made.root), streams=True)
    habits = random.Random(f"habits {number}")
    if manner == "gentle":
        between = [_some(chance, [(deed, 1) for deed in sorted(HARMLESS)]) for _ in turns]
        return _with_habits(habits, msgspec.structs.replace(made, turns=turns, between=between))
    return _in_forks(
        habits, _with_habits(habits, _rough(chance, msgspec.structs.replace(made, turns=turns), is_enriched=is_enriched))
    )


def _with_habits(chance: random.Random, made: Scenario) -> Scenario:
    """The scenario with users who think, or hurry, and with what they do to a session and its line while a turn runs."""
    turns = [[*acts, *_meanwhile(chance)] for acts in made.turns]
    if made.streams and chance.random() < 0.5:
        turns[0].append(_act(chance, "barge"))
    if any(node.experts for node in made.root.all()) and chance.random() < 0.5:
        turns[0].append(_act(chance, "cancel", most_s=0.5))
    if chance.random() < 0.3:
        made = msgspec.structs.replace(made, root=_counting(made.root))
    if chance.random() < 0.6 and sum(node.kind == "llm" for node in made.root.all()) == 1:
        # Other agents are shown each event with results by itself.
        made = msgspec.structs.replace(made, root=_trickling(made.root))
    timeout_s = made.timeout_s
    if pauses(made.root) and chance.random() < 0.3:
        timeout_s = chance.choice([1.0, 3.0])
    return msgspec.structs.replace(
        made,
        turns=turns,
        timeout_s=timeout_s,
        thinks_s=chance.choice([0.0, 0.0, 2.0, 5.0]),
        is_hasty=chance.random() < 0.25,
        writes=chance.random() < 0.4,
        opened_at_once=chance.choice([0, 0, 1, 2]),
    )


def _meanwhile(chance: random.Random) -> list[Act]:
    deeds: list[Deed] = ["withdraw"] * chance.choice([0, 0, 0, 1, 2])
    deeds += ["unnamed"] * (chance.random() < 0.2)
    deeds += [chance.choice(STOPS)] * (chance.random() < 0.15)
    deeds += [chance.choice(CHANGES)] * (chance.random() < 0.25)
    return [_act(chance, deed, most_s=0.5) for deed in deeds]


def _in_forks(chance: random.Random, made: Scenario) -> Scenario:
    """The scenario, maybe with a session that is rewound, goes on and is forked, and a fork that is changed."""
    turns, between = list(made.turns), [list(acts) for acts in made.between]
    if chance.random() < 0.25:
        between[-1].append(msgspec.structs.replace(_act(chance, "rewind"), differs=True))
    elif chance.random() < 0.3:
        between += [[] for _ in range(4 - len(turns))]
        turns += [[] for _ in range(4 - len(turns))]
        between[-2] = [msgspec.structs.replace(_act(chance, "rewind"), differs=False)]
        forked = msgspec.structs.replace(_act(chance, "fork"), differs=False)
        change = _act(chance, chance.choice(["rewind", "rewind", "delete", "note", "archive"]))
        between[-1] = [forked, msgspec.structs.replace(change, after_s=forked.after_s + 1.0, in_fork=True)]
        made = msgspec.structs.replace(made, writes=True)
    return msgspec.structs.replace(made, turns=turns, between=between)


LEFT: Sequence[Deed] = ("cancel", "cancel", "late", "late", "rerun", "rewind", "retry")
"""What is done to a turn that was left paused."""


def with_impatience(made: Scenario, number: int) -> Scenario:
    """A scenario, or in some cases one of people who send each request again while it is under way."""
    chance = random.Random(f"impatience {number}")
    if chance.random() >= 0.25:
        return made
    turns = [[*acts, Act(deed="again", after_s=10 ** chance.uniform(-2.5, -0.8))] for acts in made.turns]
    return msgspec.structs.replace(made, turns=turns)


def with_leavers(made: Scenario, number: int) -> Scenario:
    """A scenario, or in some cases one of people who leave their turns paused, and do other things than answer them."""
    chance = random.Random(f"leavers {number}")
    if chance.random() >= 0.15:
        return made
    turns = [[Act(deed="leave", after_s=0.0)] for _ in range(chance.choice([1, 2]))]
    between = [
        [
            msgspec.structs.replace(_act(chance, chance.choice(LEFT)), after_s=0.1 * place)
            for place in range(chance.choice([1, 1, 2]))
        ]
        for _ in turns
    ]
    return msgspec.structs.replace(made, root=asking_tree(chance), turns=turns, between=between, streams=False, timeout_s=0.0)


def _rough(chance: random.Random, made: Scenario, *, is_enriched: bool) -> Scenario:
    turns = [*made.turns, *([] for _ in range(chance.choice([0, 1, 1, 2])))]
    if pauses(made.root) and chance.random() < 0.4:
        turns = [[*acts, Act(deed="leave", after_s=0.0)] for acts in turns]
    between = [_some(chance, AFTERWARDS) for _ in turns]
    root = made.root
    if chance.random() < 0.5:
        root, between[0] = _failing(chance, root), [_act(chance, "retry"), *between[0]]
    # Where much fails and waits side by side, which run is the first to reach a limit decides too much.
    max_calls = chance.randint(1, 8) if chance.random() < 0.2 and not is_enriched else made.max_calls
    return msgspec.structs.replace(made, root=root, turns=turns, between=between, max_calls=max_calls)


def _beside(chance: random.Random, root: Node) -> list[Act]:
    deeds = [deed for deed, often in BESIDE if chance.random() < often]
    acts = [Act(deed=deed, after_s=10 ** chance.uniform(-3.3, 0.5), share=chance.random()) for deed in deeds]
    if pauses(root) and chance.random() < 0.5:
        acts.append(Act(deed=chance.choice(["backwards", "together"]), after_s=0.0))
    return acts


def _some(chance: random.Random, deeds: Sequence[tuple[Deed, int]]) -> list[Act]:
    kinds, weights = zip(*deeds, strict=True)
    return [_act(chance, deed) for deed in chance.choices(kinds, weights, k=chance.choice([0, 1, 1, 2, 3]))]


def _act(chance: random.Random, deed: Deed, most_s: float = 1.3) -> Act:
    return Act(
        deed=deed,
        after_s=10 ** chance.uniform(-3, most_s),
        differs=chance.random() < 0.3,
        waits=chance.random() < 0.5,
        share=chance.random(),
    )


def _counting(node: Node) -> Node:
    """The tree with LLM agents that count their runs; those that are tools, or below graphs, do not."""
    if node.kind == "graph":
        return node
    children = [_counting(child) for child in node.children]
    return msgspec.structs.replace(node, children=children, counts=node.kind == "llm")


def _trickling(node: Node) -> Node:
    """The tree with calls of slow tools that end one after the other."""
    steps = [
        msgspec.structs.replace(step, does="trickle", often=3) if step.does == "work" and step.takes_s else step
        for step in node.steps
    ]
    return msgspec.structs.replace(node, steps=steps, children=[_trickling(child) for child in node.children])


def _streaming(chance: random.Random, node: Node) -> Node:
    """The tree with models that stream their answers in pieces."""
    below = {"children": [_streaming(chance, child) for child in node.children]}
    return msgspec.structs.replace(node, pieces=chance.randint(2, 5) if node.kind == "llm" else 0, **below)


def _failing(chance: random.Random, root: Node) -> Node:
    """The tree with an agent whose first runs fail, if it has one that may."""
    names = [node.name for node in root.all() if node.kind == "llm" and not node.children and not node.fails]
    return _with_failures(root, chance.choice(names), chance.choice([1, 1, 2])) if names else root


def _with_failures(node: Node, name: str, fails: int) -> Node:
    children = [_with_failures(child, name, fails) for child in node.children]
    return msgspec.structs.replace(node, children=children, fails=fails if node.name == name else node.fails)
