"""Who works next, and on what (semantics.md section 7): candidates, turn strategies, agents side by side.

A turn of an agent lasts until it finishes one of its tasks, or ends the turn itself; it has any number of rounds, of one model
call each. Who has a turn keeps it while there is something for it to do. What nobody works on goes to another agent,
which works beside the first: tasks that can be worked on at the same time never need each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal

import msgspec

from actors.rules.flow.board import Board

Strategy = Literal["round_robin", "single", "popcorn", "moderated", "random", "most_busy"]

Draw = Callable[[str, Sequence[str]], str]
"""Draws one of several names. It has to draw the same name for the same text and names in every process."""


class TurnRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a flow chooses agents.

    Attributes:
        agents: all of the flow, in order.
        strategy: who comes next when nobody was named.
            round_robin: the next candidate behind the last active one.
            single, popcorn: whoever was active last stays, until somebody else is named.
            moderated: the moderator, if it is a candidate.
            random: anybody.
            most_busy: the one with most ready tasks.
            Where that leaves a choice, or nobody, it is the first candidate.
        moderator: for "moderated"; "" is the first agent.
        max_parallel: so many agents work at the same time; None is any number.
        seed: what chance depends on.
    """

    agents: tuple[str, ...]
    strategy: Strategy = "round_robin"
    moderator: str = ""
    max_parallel: int | None = None
    seed: str = ""


class Assignment(msgspec.Struct, frozen=True):
    """An agent's next round: on these tasks; `begins`: it is the first of a turn."""

    agent: str
    tasks: tuple[str, ...]
    begins: bool


def candidates(board: Board, tasks: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Who may work on some of the tasks, each with those that are meant; first those who may work on the first."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        for agent in board.nodes[task].agents:
            found.setdefault(agent, []).append(task)
    return {agent: tuple(of_agent) for agent, of_agent in found.items()}


def peers(board: Board, agent: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """Who else may work on an agent's tasks: to them it can hand over."""
    return tuple(other for other in candidates(board, tasks) if other != agent)


def choose(rules: TurnRules, board: Board, pool: Mapping[str, Sequence[str]], draw: Draw) -> str:
    """The agent whose turn begins, out of the candidates with their tasks."""
    if board.named in pool:
        return str(board.named)
    names = list(pool)
    match rules.strategy:
        case "single" | "popcorn":
            return board.last if board.last in pool else names[0]
        case "moderated":
            moderator = rules.moderator or rules.agents[0]
            return moderator if moderator in pool else names[0]
        case "random":
            return draw(f"{rules.seed}/{board.rounds}/{len(board.turns)}", names)
        case "most_busy":
            return max(names, key=lambda name: len(pool[name]))
        case "round_robin":
            return _behind(board.last, names, rules.agents)


def _behind(last: str, names: Sequence[str], agents: Sequence[str]) -> str:
    """The next candidate; of one that is none itself, the next in the order of the flow's agents."""
    if last in names:
        return names[(names.index(last) + 1) % len(names)]
    if last not in agents:
        return names[0]
    place = agents.index(last)
    return next((agent for agent in (*agents[place:], *agents[:place]) if agent in names), names[0])


def next_rounds(
    rules: TurnRules, board: Board, draw: Draw, at_work: Sequence[Assignment] = (), waiting: Set[str] = frozenset()
) -> list[Assignment]:
    """The rounds that can begin now.

    Args:
        draw: how the "random" strategy chooses.
        at_work: the rounds that are under way; nobody else gets their tasks.
        waiting: agents that wait for the user in the middle of a turn; nobody else gets theirs.
    """
    return TurnScheduler(rules, board, draw, at_work, waiting).deal()


class TurnScheduler:
    """Deals the free ready tasks of one moment to agents."""

    def __init__(self, rules: TurnRules, board: Board, draw: Draw, at_work: Sequence[Assignment], waiting: Set[str]) -> None:
        self._rules = rules
        self._board = board
        self._draw = draw
        self._busy = {each.agent for each in at_work} | waiting
        held = {task for each in at_work for task in each.tasks}
        held.update(task for agent in waiting for task in board.turns.get(agent, ()))
        self._free = [task for task in board.ready() if task not in held]
        self._slots = len(rules.agents) if rules.max_parallel is None else rules.max_parallel - len(at_work)
        self._dealt: dict[str, Assignment] = {}

    def deal(self) -> list[Assignment]:
        """The rounds to start now."""
        going_on = [agent for agent in self._board.turns if agent not in self._busy]
        kept = {agent: [task for task in self._board.turns[agent] if task in self._free] for agent in going_on}
        others = {task for tasks in kept.values() for task in tasks}
        for agent in going_on[: max(0, self._slots)]:
            more = [task for task in self._free if task not in others and self._is_for(task, agent)]
            wanted = {*kept[agent], *more}
            self._take(agent, [task for task in self._free if task in wanted], begins=False)
        while self._free and self._slots > 0 and (pool := self._pool()):
            agent = choose(self._rules, self._now(), pool, self._draw)
            self._take(agent, pool[agent], begins=True)
        return list(self._dealt.values())

    def _is_for(self, task: str, agent: str) -> bool:
        """True when the agent may work on it, and it was not handed over to another who will come to it."""
        meant = self._board.handed.get(task, agent)
        return agent in self._board.nodes[task].agents and meant == agent

    def _take(self, agent: str, tasks: Sequence[str], *, begins: bool) -> None:
        if tasks:
            self._dealt[agent] = Assignment(agent, tuple(tasks), begins)
            self._free = [task for task in self._free if task not in tasks]
            self._slots -= 1

    def _pool(self) -> dict[str, tuple[str, ...]]:
        pool = candidates(self._board, self._free)
        able = ((agent, tasks) for agent, tasks in pool.items() if agent not in self._busy and agent not in self._dealt)
        for_each = ((agent, tuple(task for task in tasks if self._is_for(task, agent))) for agent, tasks in able)
        return {agent: tasks for agent, tasks in for_each if tasks}

    def _now(self) -> Board:
        """The board as it is when those that were dealt have begun: who comes behind the last is behind them."""
        begun = [each.agent for each in self._dealt.values() if each.begins]
        if not begun:
            return self._board
        after = Board()
        after.last = begun[-1]
        after.rounds, after.turns = self._board.rounds + len(begun), self._board.turns
        return after
