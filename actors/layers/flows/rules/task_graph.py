"""Which tasks of a flow need which others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.messages.flow import TaskNode


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
