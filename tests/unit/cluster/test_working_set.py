"""A simulation of processes and agents: how often agents are activated, and where they live, over sequences of requests."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.rules.process_choice import Load, chosen, leaving


class Simulation:
    """Agents in processes, by the rules, or by those that were in force before: all idle agents made room for a new one.

    Args:
        limit: how many processes there may be.
        agents: of the tree.
        evicts_all: the rules of before.

    Attributes:
        limit: how many processes there may be.
        processes: the agents in each, with the number of their runs and the time of their last use.
        activations: so far.
        evicted: agents that had to leave.
    """

    def __init__(self, limit: int, agents: int, *, evicts_all: bool = False) -> None:
        self.limit = limit
        self._agents = agents
        self._evicts_all = evicts_all
        self._now_s = 0
        self.processes: list[dict[int, tuple[int, int]]] = []
        self.activations = 0
        self.evicted: list[tuple[int, int]] = []

    def begin(self, agent: int) -> None:
        """A run of an agent begins."""
        self._now_s += 1
        living = self._process_of(agent)
        if living is None:
            living = self._activate()
        runs, _ = living.get(agent, (0, 0))
        living[agent] = (runs + 1, self._now_s)

    def end(self, agent: int) -> None:
        """A run of an agent ends."""
        self._now_s += 1
        living = self._process_of(agent)
        assert living is not None
        living[agent] = (living[agent][0] - 1, self._now_s)

    def _process_of(self, agent: int) -> dict[int, tuple[int, int]] | None:
        return next((each for each in self.processes if agent in each), None)

    def _activate(self) -> dict[int, tuple[int, int]]:
        self.activations += 1
        if self._evicts_all:
            return self._activate_as_before()
        loads = [self._load(each) for each in self.processes]
        index = chosen(loads, limit=self.limit, agents=self._agents, is_ready=False, may_join=False)
        if index is None:
            self.processes.append({})
            return self.processes[-1]
        living = self.processes[index]
        idle = self._idle(living)
        out = leaving([living[agent][1] for agent in idle], living=len(living), is_short=False)
        self._evict(living, [idle[each] for each in out])
        return living

    def _activate_as_before(self) -> dict[int, tuple[int, int]]:
        if len(self.processes) < self.limit:
            self.processes.append({})
            return self.processes[-1]
        living = min(self.processes, key=lambda each: (self._load(each).in_use, self._load(each).used_s))
        self._evict(living, self._idle(living))
        return living

    def _load(self, living: dict[int, tuple[int, int]]) -> Load:
        in_use = len(living) - len(self._idle(living))
        used_s = max((used_s for _, used_s in living.values()), default=0)
        return Load(in_use=in_use, agents=len(living), used_s=used_s)

    def _idle(self, living: dict[int, tuple[int, int]]) -> list[int]:
        return [agent for agent, (runs, _) in living.items() if not runs]

    def _evict(self, living: dict[int, tuple[int, int]], agents: Sequence[int]) -> None:
        for agent in agents:
            self.evicted.append((agent, living.pop(agent)[0]))


def play(simulation: Simulation, agents: Sequence[int], at_once: int) -> None:
    """Run one agent after the other, so many of them at the same time."""
    running: list[int] = []
    for agent in agents:
        if len(running) >= at_once:
            simulation.end(running.pop(0))
        simulation.begin(agent)
        running.append(agent)
        assert len(simulation.processes) <= simulation.limit
    for agent in running:
        simulation.end(agent)


Requests = st.lists(st.integers(0, 60), max_size=300)


@given(Requests, st.integers(1, 20), st.integers(1, 12))
def test_every_agent_is_activated_once_and_never_more_often_than_before(requests: list[int], at_once: int, limit: int) -> None:
    now, before = Simulation(limit, 61), Simulation(limit, 61, evicts_all=True)
    play(now, requests, at_once)
    play(before, requests, at_once)
    assert now.activations == len(set(requests)) <= before.activations
    assert now.evicted == []
    sizes = [len(each) for each in now.processes]
    if len(set(requests)) <= limit:
        assert all(size == 1 for size in sizes)


@given(st.lists(st.integers(0, 900), min_size=300, max_size=1_200), st.integers(1, 20))
def test_no_agent_is_evicted_in_the_middle_of_a_run(requests: list[int], at_once: int) -> None:
    simulation = Simulation(2, 901)
    play(simulation, requests, at_once)
    assert all(runs == 0 for _, runs in simulation.evicted)
    assert all(len(each) <= 256 for each in simulation.processes)


def test_a_rotation_over_two_hundred_agents_activates_each_of_them_once() -> None:
    chance = random.Random(7)
    rotation = [desk * 12 + agent for _ in range(200) for desk in [chance.randrange(16)] for agent in range(12)]
    now, before = Simulation(8, 192), Simulation(8, 192, evicts_all=True)
    play(now, rotation, 20)
    play(before, rotation, 20)
    assert now.activations == 192
    assert before.activations > 10 * now.activations
