"""Processes of a deployment on Ray are lost while people do what they do in simulations: its history has to be possible."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.chaos.storm import Storm, play_storm
from tests.simulation.people import with_people
from tests.simulation.scenarios import Act, Deed, Node, Scenario, Step, scenario
from tests.support.machine.terminal import Tell

FAULTS = {
    ("agent", "kill"): 50,
    ("agent", "stop"): 18,
    ("runner", "kill"): 8,
    ("runner", "stop"): 5,
    ("session", "kill"): 8,
    ("session", "stop"): 5,
    ("program", "kill"): 6,
}
"""What happens, and how often for every hundred faults."""


def desk() -> Node:
    """An agent with another one as a tool, and one below it that asks the user behind two that work side by side."""
    expert = Node(kind="llm", name="expert", steps=[Step(does="work", takes_s=0.1)], pieces=2)
    workers = [Node(kind="llm", name=name, steps=[Step(does="work", often=2, takes_s=0.2)]) for name in ("web", "papers")]
    asks = Node(kind="llm", name="asks", steps=[Step(does="confirm")])
    report = Node(kind="seq", name="report", children=[Node(kind="par", name="sources", children=workers), asks])
    steps = [Step(does="work", takes_s=0.1), Step(does="expert", to="expert"), Step(does="transfer", to="report")]
    return Node(kind="llm", name="desk", steps=steps, experts=[expert], children=[report], pieces=2)


@pytest.mark.full
def test_the_history_of_a_small_storm_is_possible(local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Most of what it takes is the start of processes.
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    calm = Scenario(root=desk(), streams=True)
    after: Sequence[Deed] = ("fork", "rewind", "elsewhere")
    both = Act(deed="answer", after_s=0.1, differs=True)
    beside = [[Act(deed="again", after_s=0.2), both], [Act(deed="attach", after_s=0.2)], [Act(deed="cancel", after_s=0.5)]]
    people = [
        msgspec.structs.replace(calm, turns=[acts], between=[[Act(deed=deed, after_s=0)]])
        for acts, deed in zip(beside, after, strict=True)
    ]
    faults = iter([("agent", "kill"), ("session", "kill"), ("runner", "kill")])
    storm = Storm(scenario=calm, people=people, faults=faults, every=4, within_s=90)
    passed = play_storm(storm, local_ray, tmp_path, seed=1)
    assert passed.wrong == []
    assert len(passed.history.lost) == 3


def drawn(number: int, users: int, faults: Iterator[tuple[str, str]]) -> Storm:
    """A storm over the agents of a scenario. Its people are those of others."""
    made = with_people(scenario(number), number)
    others = [
        with_people(msgspec.structs.replace(scenario(each), root=made.root), each) for each in range(number, number + users)
    ]
    people = [msgspec.structs.replace(made, turns=other.turns, between=other.between) for other in others]
    return Storm(scenario=made, people=people, faults=faults, every=12, programs=2, pace=0.3)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(0, 120, 12))
def test_the_history_of_a_storm_is_possible(local_ray: str, tmp_path: Path, tell: Tell, number: int) -> None:
    chance = random.Random(number)
    faults = iter(lambda: chance.choices(list(FAULTS), list(FAULTS.values()))[0], None)
    passed = play_storm(drawn(number, 8, faults), local_ray, tmp_path, seed=number)
    tell(passed.figures)
    assert passed.wrong == []
