"""The tasks of one run of a flow: their graph, their states, and what a log makes of them (semantics.md section 7).

A `Board` is folded from the marks of the log's events, in their order. The controller, the agents that work on tasks and
the driver each fold their own, and find the same. A task that is complete never changes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actors.messages.flow import COMPLETE, FlowMark, TaskChange, TaskNode, TaskStatus


def cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Tasks that need each other in a circle, the first named again at the end; [] when there are none.

    Args:
        needs: for every task the tasks that it needs.
    """
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            task, is_left = stack.pop()
            if is_left:
                done.add(path.pop())
            elif task in path:
                return [*path[path.index(task) :], task]
            elif task not in done:
                path.append(task)
                stack.append((task, True))
                stack += ((needed, False) for needed in needs.get(task, ()))
    return []


class Board:
    """How far a run of a flow is.

    Attributes:
        nodes: the tasks by name, in the order in which they were made.
        status: of every task.
        results, reasons: of those that have one.
        turns: agents whose turn has not ended, in the order in which they began, with the tasks that they were given.
        last: whose turn began last, "" before the first.
        named: whom the last agent to end its turn has named as the next; None: nobody, or it has had its turn.
        handed: tasks that were handed over, with the agent that they wait for.
        rounds, llm_calls: how many there were so far; `calls`: model calls by task.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, TaskNode] = {}
        self.status: dict[str, TaskStatus] = {}
        self.results: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.turns: dict[str, tuple[str, ...]] = {}
        self.last = ""
        self.named: str | None = None
        self.handed: dict[str, str] = {}
        self.rounds = 0
        self.llm_calls = 0
        self.calls: dict[str, int] = {}
        self._needs: dict[str, list[str]] = {}
        self._needed_by: dict[str, list[str]] = {}
        self._goal: dict[str, None] = {}
        self._told_ready: set[str] = set()
        self._in_work: list[str] | None = None

    # ------------------------------------------------------------------------------------------------------- folding
    def add(self, author: str, mark: FlowMark) -> None:
        """Take in what an event says of the flow."""
        self.rounds = max(self.rounds, mark.round)
        self.llm_calls += mark.llm_calls
        for task in mark.tasks:
            self.calls[task] = self.calls.get(task, 0) + mark.llm_calls
        if mark.created or mark.goal:
            self._create(mark)
        self._told_ready.update(mark.ready)
        if mark.tasks:
            # Also when the controller's own note of that turn has not come through.
            self._turn(author, mark.tasks)
        for task, change in mark.changes.items():
            self._change(task, change)
        if mark.ends_turn or any(change.status in COMPLETE for change in mark.changes.values()):
            self._end_turns(author, mark)
        for agent, tasks in mark.turns.items():
            self._turn(agent, tasks)

    def _create(self, mark: FlowMark) -> None:
        for node in mark.created:
            if node.name in self.nodes:
                continue
            self.nodes[node.name] = node
            self.status[node.name] = "pending"
            self._needs.setdefault(node.name, [])
            for needed in node.depends_on:
                self._need(node.name, needed)
            if node.parent is not None:
                self._need(node.parent, node.name)
        # What an agent makes while the flow runs is always to be done.
        self._goal.update(dict.fromkeys(mark.goal or (node.name for node in mark.created)))
        self._in_work = None

    def _need(self, task: str, needed: str) -> None:
        needs = self._needs.setdefault(task, [])
        if needed not in needs:
            needs.append(needed)
            self._needed_by.setdefault(needed, []).append(task)

    def _turn(self, agent: str, tasks: tuple[str, ...]) -> None:
        if agent not in self.turns:
            self.last = agent
            self.named = None
        self.turns[agent] = tasks
        for task in tasks:
            self.handed.pop(task, None)
            if self.status.get(task) == "pending":
                self.status[task] = "running"

    def _change(self, task: str, change: TaskChange) -> None:
        if task not in self.nodes or self.is_complete(task):
            return
        self.status[task] = change.status
        if change.status == "successful":
            self.results[task] = change.result
        if change.reason:
            self.reasons[task] = change.reason

    def _end_turns(self, author: str, mark: FlowMark) -> None:
        """Its own finishing of a task or `end_turn` ends an agent's turn, and so does a task of it that was given up."""
        changed = {task for task, change in mark.changes.items() if change.status in COMPLETE}
        ended = [agent for agent, tasks in self.turns.items() if agent == author or not changed.isdisjoint(tasks)]
        for agent in ended:
            left = [task for task in self.turns.pop(agent) if not self.is_complete(task)]
            if agent == author and mark.next_agent is not None:
                self.named = mark.next_agent
                mine = [task for task in left if mark.next_agent in self.nodes[task].agents]
                self.handed.update(dict.fromkeys(mine, mark.next_agent))

    # ------------------------------------------------------------------------------------------------------- the graph
    def needs(self, task: str) -> Sequence[str]:
        """The tasks that a task needs: its dependencies and its subtasks."""
        return self._needs.get(task, ())

    def upstream(self, tasks: Iterable[str]) -> frozenset[str]:
        """The tasks, and everything that they need, and what that needs, and so on."""
        found: set[str] = set()
        waiting = list(tasks)
        while waiting:
            task = waiting.pop()
            if task not in found:
                found.add(task)
                waiting += self.needs(task)
        return frozenset(found)

    def goal(self) -> tuple[str, ...]:
        """The tasks that the run is for."""
        return tuple(self._goal)

    def in_work(self) -> Sequence[str]:
        """The tasks that the run is to complete: its goal and everything upstream, in the order in which they were made."""
        if self._in_work is None:
            wanted = self.upstream(self._goal)
            self._in_work = [task for task in self.nodes if task in wanted]
        return self._in_work

    # ------------------------------------------------------------------------------------------------------- the states
    def is_complete(self, task: str) -> bool:
        """True when the task is successful, failed or skipped."""
        return self.status.get(task) in COMPLETE

    def ready(self) -> list[str]:
        """The tasks that can be worked on: not complete, while everything that they need is."""
        return [task for task in self.in_work() if not self.is_complete(task) and self._may_begin(task)]

    def _may_begin(self, task: str) -> bool:
        return all(self.is_complete(needed) for needed in self.needs(task)) and self._given_up_for(task) is None

    def incomplete(self) -> list[str]:
        """The tasks that are left to do."""
        return [task for task in self.in_work() if not self.is_complete(task)]

    def newly_ready(self) -> tuple[str, ...]:
        """The tasks that can be worked on without the log having told so."""
        return tuple(task for task in self.ready() if task not in self._told_ready)

    def spread(self) -> dict[str, TaskChange]:
        """The tasks that have to be skipped, because one that they need has failed or was skipped."""
        skipped: dict[str, TaskChange] = {}
        # Only what needs a task that was given up can be among them, so everything else is not looked at.
        waiting = [task for task, status in self.status.items() if status in ("failed", "skipped")]
        while waiting:
            needed = waiting.pop(0)
            for task in self._needed_by.get(needed, ()):
                node = self.nodes.get(task)
                if node is None or self.is_complete(task) or task in skipped or node.on_failed_dependency == "run":
                    continue
                how = "skipped" if needed in skipped else self.status[needed]
                skipped[task] = TaskChange(status="skipped", reason=f"it needs {needed!r}, which was {how}")
                waiting.append(task)
        return skipped

    def _given_up_for(self, task: str) -> str | None:
        if self.nodes[task].on_failed_dependency == "run":
            return None
        return next((needed for needed in self.needs(task) if self.status.get(needed) in ("failed", "skipped")), None)

    def used_up(self) -> dict[str, TaskChange]:
        """The tasks that have had all their model calls and are not complete: they fail."""
        over: dict[str, TaskChange] = {}
        for task, made in self.calls.items():
            node = self.nodes.get(task)
            limit = node.max_llm_calls if node is not None else None
            if limit is not None and made >= limit and not self.is_complete(task):
                over[task] = TaskChange(status="failed", reason=f"max_llm_calls: it was not done after {made} model calls")
        return over
