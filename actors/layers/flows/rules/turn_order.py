"""Which agent works next, and on which tasks (semantics.md section 7).

An agent's turn lasts until it finishes one of its tasks or ends the turn itself. It has any number of rounds, each of one model
call. An agent keeps its turn while it has ready tasks. Ready tasks without an agent go to another agent, which works beside the
first: tasks that are ready at the same time never need each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal

import msgspec

from actors.layers.flows.rules.board import Board

Strategy = Literal["round_robin", "single", "popcorn", "moderated", "random", "most_busy"]

Draw = Callable[[str, Sequence[str]], str]
"""Draws one of several names by chance. For the same seed and names it must draw the same name in every process."""


class TurnRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a flow chooses agents.

    Attributes:
        agents: all agents of the flow, in order.
        strategy: which candidate comes next when none was named.
            round_robin: the next one after the agent that began last.
            single, popcorn: the agent that began last, until another one is named.
            moderated: the moderator, if it is a candidate.
            random: any.
            most_busy: the one with most ready tasks.
            The first candidate, where a strategy finds none or several.
        moderator: for "moderated"; "" is the first agent.
        max_parallel: number of agents that may work at the same time; None is no limit.
    """

    agents: tuple[str, ...]
    strategy: Strategy = "round_robin"
    moderator: str = ""
    max_parallel: int | None = None
    seed: str = ""


class Assignment(msgspec.Struct, frozen=True):
    """An agent's next round.

    Attributes:
        begins: the round is the first of a turn.
    """

    agent: str
    tasks: tuple[str, ...]
    begins: bool


def candidates(board: Board, tasks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The agents that may work on some of the tasks, each with those tasks; agents of the first task come first."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        for agent in board.nodes[task].agents:
            found.setdefault(agent, []).append(task)
    return {agent: tuple(of_agent) for agent, of_agent in found.items()}


def peers(board: Board, agent: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """The other agents that may work on an agent's tasks, so that it can hand over to them."""
    return tuple(other for other in candidates(board, tasks) if other != agent)


class TurnScheduler:
    """Assigns the free ready tasks of one moment to agents.

    Args:
        draw: how the "random" strategy chooses.
        at_work: the rounds under way; no other agent gets their tasks.
        waiting: the agents that wait for the user in the middle of a turn; no other agent gets their tasks.
    """

    def __init__(
        self, rules: TurnRules, board: Board, draw: Draw, at_work: Sequence[Assignment] = (), waiting: Set[str] = frozenset()
    ) -> None:
        self._rules = rules
        self._board = board
        self._draw = draw
        self._busy = {each.agent for each in at_work} | waiting
        held = {task for each in at_work for task in each.tasks}
        held.update(task for agent in waiting for task in board.turns.get(agent, ()))
        self._free = [task for task in board.ready() if task not in held]
        self._slots = len(rules.agents) if rules.max_parallel is None else rules.max_parallel - len(at_work)
        self._assigned: dict[str, Assignment] = {}

    def assign(self) -> list[Assignment]:
        """The rounds to start now: first those of turns that go on, then new turns."""
        going_on = [agent for agent in self._board.turns if agent not in self._busy]
        kept = {agent: [task for task in self._board.turns[agent] if task in self._free] for agent in going_on}
        others = {task for tasks in kept.values() for task in tasks}
        for agent in going_on[: max(0, self._slots)]:
            more = [task for task in self._free if task not in others and self._is_for(task, agent)]
            wanted = {*kept[agent], *more}
            self._take(agent, [task for task in self._free if task in wanted], begins=False)
        while self._free and self._slots > 0 and (pool := self._pool()):
            agent = self._choose(pool)
            self._take(agent, pool[agent], begins=True)
        return list(self._assigned.values())

    def _is_for(self, task: str, agent: str) -> bool:
        """True when the agent may work on the task, and the task was not handed over to another agent."""
        return agent in self._board.nodes[task].agents and self._board.handed_over.get(task, agent) == agent

    def _take(self, agent: str, tasks: Sequence[str], *, begins: bool) -> None:
        if tasks:
            self._assigned[agent] = Assignment(agent, tuple(tasks), begins)
            self._free = [task for task in self._free if task not in tasks]
            self._slots -= 1

    def _pool(self) -> dict[str, tuple[str, ...]]:
        """The idle agents that may begin a turn, with their tasks."""
        pool = candidates(self._board, self._free)
        idle = ((agent, tasks) for agent, tasks in pool.items() if agent not in self._busy and agent not in self._assigned)
        for_each = ((agent, tuple(task for task in tasks if self._is_for(task, agent))) for agent, tasks in idle)
        return {agent: tasks for agent, tasks in for_each if tasks}

    def _choose(self, pool: Mapping[str, Sequence[str]]) -> str:
        """The agent whose turn begins, out of a pool of candidates with their tasks."""
        rules, board, names = self._rules, self._board, list(pool)
        begun = [each.agent for each in self._assigned.values() if each.begins]
        last = begun[-1] if begun else board.last_agent
        if not begun and board.next_agent in pool:
            return str(board.next_agent)
        match rules.strategy:
            case "single" | "popcorn":
                return last if last in pool else names[0]
            case "moderated":
                moderator = rules.moderator or rules.agents[0]
                return moderator if moderator in pool else names[0]
            case "random":
                return self._draw(f"{rules.seed}/{board.rounds + len(begun)}/{len(board.turns)}", names)
            case "most_busy":
                return max(names, key=lambda name: len(pool[name]))
            case "round_robin":
                return _next_after(last, names, rules.agents)


def _next_after(last: str, names: Sequence[str], agents: Sequence[str]) -> str:
    """The candidate after `last`; if `last` is none itself, the first candidate after it among the flow's agents."""
    if last in names:
        return names[(names.index(last) + 1) % len(names)]
    if last not in agents:
        return names[0]
    index = agents.index(last)
    return next((agent for agent in (*agents[index:], *agents[:index]) if agent in names), names[0])
