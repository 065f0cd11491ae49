"""The state of one run of a flow (semantics.md section 7).

A `Board` is folded from the marks of the log's events, in their order. The controller, the agents that work on tasks and
the driver each fold their own, and arrive at the same state. A task that is complete never changes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.messages.flow import FlowMark, TaskChange, TaskNode, TaskStatus
from actors.messages.json_types import JsonValue

COMPLETE: frozenset[str] = frozenset({"successful", "failed", "skipped"})
"""The final statuses of a task."""


def cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Tasks that need each other in a circle, with the first one repeated at the end; [] when there is no circle.

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


class TaskGraph:
    """The tasks of one run of a flow, without their states. A task needs its dependencies and its subtasks.

    Attributes:
        nodes: the tasks by name, in the order in which they were created.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, TaskNode] = {}
        self._needs: dict[str, list[str]] = {}
        self._needed_by: dict[str, list[str]] = {}
        self._goal: dict[str, None] = {}
        self._required: list[str] | None = None

    def add_tasks(self, nodes: Sequence[TaskNode], goal: Sequence[str]) -> list[TaskNode]:
        """Add tasks, and extend the goal; without `goal` by all of `nodes`.

        Returns:
            The tasks that were not known before.
        """
        new = [node for node in nodes if node.name not in self.nodes]
        for node in new:
            self.nodes[node.name] = node
            self._needs.setdefault(node.name, [])
            for needed in node.depends_on:
                self._add_need(node.name, needed)
            if node.parent is not None:
                self._add_need(node.parent, node.name)
        self._goal.update(dict.fromkeys(goal or (node.name for node in nodes)))
        self._required = None
        return new

    def _add_need(self, task: str, needed: str) -> None:
        needs = self._needs.setdefault(task, [])
        if needed not in needs:
            needs.append(needed)
            self._needed_by.setdefault(needed, []).append(task)

    def needs(self, task: str) -> Sequence[str]:
        """The tasks that a task needs directly."""
        return self._needs.get(task, ())

    def needed_by(self, task: str) -> Sequence[str]:
        """The tasks that need a task directly."""
        return self._needed_by.get(task, ())

    def upstream(self, tasks: Iterable[str]) -> frozenset[str]:
        """The tasks, and all tasks that they need, directly or indirectly."""
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

    def required(self) -> Sequence[str]:
        """The tasks that the run has to complete, the goal and everything upstream, in the order in which they were created."""
        if self._required is None:
            wanted = self.upstream(self._goal)
            self._required = [task for task in self.nodes if task in wanted]
        return self._required


class Board(TaskGraph):
    """The tasks of a run, their states, and the turns of agents.

    Attributes:
        results: of the tasks that have a result.
        reasons: of the tasks that failed or were skipped.
        turns: the agents whose turn has not ended, in the order in which they began, with the tasks that they were given.
        last_agent: the agent whose turn began last; "" before the first.
        next_agent: the agent that the last one to end its turn has named; None when it named none, or when a turn has begun
            since.
        handed_over: tasks that were handed over, with the agent that they wait for.
        rounds: number of rounds so far.
        turns_begun: number of turns of agents that have begun so far.
        llm_calls: number of model calls so far.
        stopped: the condition that has stopped the run early; "" for none.
        calls: by task, number of model calls for it since its agent has last finished any task.
    """

    def __init__(self) -> None:
        super().__init__()
        self.status: dict[str, TaskStatus] = {}
        self.results: dict[str, JsonValue] = {}
        self.reasons: dict[str, str] = {}
        self.turns: dict[str, tuple[str, ...]] = {}
        self.last_agent = ""
        self.next_agent: str | None = None
        self.handed_over: dict[str, str] = {}
        self.rounds = 0
        self.turns_begun = 0
        self.llm_calls = 0
        self.stopped = ""
        self.calls: dict[str, int] = {}
        self._announced: set[str] = set()

    def add(self, author: str, mark: FlowMark) -> None:
        """Add what an event by `author` says of the run."""
        self.rounds = max(self.rounds, mark.round)
        self.llm_calls += mark.llm_calls
        self.stopped = mark.stopped or self.stopped
        self._count_calls(mark)
        if mark.created or mark.goal:
            self._create(mark.created, mark.goal)
        self._announced.update(mark.ready)
        if mark.tasks:
            # The controller's own mark of that turn may not have been stored.
            self._begin_turn(author, mark.tasks)
        for task, change in mark.changes.items():
            self._change(task, change)
        if mark.ends_turn or any(change.status in COMPLETE for change in mark.changes.values()):
            self._end_turns(author, mark)
        for agent, tasks in mark.turns.items():
            self._begin_turn(agent, tasks)

    def _count_calls(self, mark: FlowMark) -> None:
        # An agent may have many tasks at the same time: as long as it finishes some, the others have not failed.
        gets_on = any(change.status in COMPLETE for change in mark.changes.values())
        for task in mark.tasks:
            self.calls[task] = 0 if gets_on else self.calls.get(task, 0) + mark.llm_calls

    def _create(self, nodes: Sequence[TaskNode], goal: Sequence[str]) -> None:
        # Tasks that an agent creates while the flow runs come without a goal: all of them are to be completed.
        for node in self.add_tasks(nodes, goal):
            self.status[node.name] = "pending"

    def _begin_turn(self, agent: str, tasks: tuple[str, ...]) -> None:
        if agent not in self.turns:
            self.turns_begun += 1
            self.last_agent = agent
            self.next_agent = None
        self.turns[agent] = tasks
        for task in tasks:
            self.handed_over.pop(task, None)
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
        """End the author's turn, and the turns of all agents of which a task is complete now."""
        changed = {task for task, change in mark.changes.items() if change.status in COMPLETE}
        ended = [agent for agent, tasks in self.turns.items() if agent == author or not changed.isdisjoint(tasks)]
        for agent in ended:
            left = [task for task in self.turns.pop(agent) if not self.is_complete(task)]
            if agent == author and mark.next_agent is not None:
                self.next_agent = mark.next_agent
                mine = [task for task in left if mark.next_agent in self.nodes[task].agents]
                self.handed_over.update(dict.fromkeys(mine, mark.next_agent))

    def is_complete(self, task: str) -> bool:
        """True when the task is successful, failed or skipped."""
        return self.status.get(task) in COMPLETE

    def incomplete(self) -> list[str]:
        """The tasks that are left to do."""
        return [task for task in self.required() if not self.is_complete(task)]

    def ready(self) -> list[str]:
        """The tasks that agents can work on: not complete, while all tasks that they need are."""
        return [task for task in self.incomplete() if self._may_begin(task)]

    def _may_begin(self, task: str) -> bool:
        return all(map(self.is_complete, self.needs(task))) and not self._is_to_be_skipped(task)

    def _is_to_be_skipped(self, task: str) -> bool:
        if self.nodes[task].on_failed_dependency == "run":
            return False
        return any(self.status.get(needed) in ("failed", "skipped") for needed in self.needs(task))

    def newly_ready(self) -> tuple[str, ...]:
        """The ready tasks that no mark in the log has named as ready."""
        return tuple(task for task in self.ready() if task not in self._announced)

    def skipped_by_failures(self) -> dict[str, TaskChange]:
        """The tasks to skip because one that they need has failed or was skipped, directly or indirectly."""
        skipped: dict[str, TaskChange] = {}
        # Only tasks that need a failed or skipped one are looked at.
        waiting = [task for task, status in self.status.items() if status in ("failed", "skipped")]
        while waiting:
            needed = waiting.pop(0)
            for task in self.needed_by(needed):
                node = self.nodes.get(task)
                if node is None or self.is_complete(task) or task in skipped or node.on_failed_dependency == "run":
                    continue
                how = "skipped" if needed in skipped else self.status[needed]
                skipped[task] = TaskChange(status="skipped", reason=f"it needs {needed!r}, which was {how}")
                waiting.append(task)
        return skipped

    def out_of_calls(self) -> dict[str, TaskChange]:
        """The tasks that fail now, because they have used all their model calls and are not complete."""
        failed: dict[str, TaskChange] = {}
        for task, used in self.calls.items():
            node = self.nodes.get(task)
            limit = node.max_llm_calls if node is not None else None
            if limit is not None and used >= limit and not self.is_complete(task):
                failed[task] = TaskChange(
                    status="failed", reason=f"max_llm_calls={limit}: it was not done after {used} model calls"
                )
        return failed


def last_tasks(board: Board) -> list[str]:
    """The tasks that the run has to complete and that no other task needs: they are what the run is for."""
    required = board.required()
    needed = {task for other in required for task in board.needs(other)}
    return [task for task in required if task not in needed]
