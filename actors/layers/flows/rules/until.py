"""When a flow stops before all its tasks are done (semantics.md section 7).

A condition is plain data, and a function of what the log says of the run alone. Once it holds it holds for good: it counts what
never becomes less. So a controller that is started again on a log stops where the one before it would have stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from actors.errors import DefinitionError
from actors.errors.hints import CheckedStruct
from actors.layers.flows.rules.board import COMPLETE
from actors.messages.flow import TaskStatus
from actors.messages.shown import Shown


class NamedTask(Protocol):
    """A task of a flow's definition."""

    @property
    def name(self) -> str:
        """Its name; "" when the flow gives it one."""
        ...


NameOf = Callable[[NamedTask | str], str]
"""Finds the name of a task in a flow."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What conditions are decided by.

    Attributes:
        required: the tasks that the run has to complete.
        agent_turns: number of turns of agents that have ended.
    """

    status: Mapping[str, TaskStatus]
    required: Sequence[str]
    llm_calls: int = 0
    agent_turns: int = 0

    def completed(self, among: Sequence[str]) -> int:
        """Count the complete ones of some tasks: successful, failed or skipped."""
        return sum(self.status.get(task) in COMPLETE for task in among)


class Condition(Shown, CheckedStruct, frozen=True, tag=True):
    """A condition on which a flow stops early. Combine conditions with `|`, for any of them, and `&`, for all of them."""

    def __or__(self, other: Condition) -> Condition:
        return AnyOf((self, other)) if isinstance(other, Condition) else NotImplemented

    def __and__(self, other: Condition) -> Condition:
        return AllOf((self, other)) if isinstance(other, Condition) else NotImplemented

    def holds(self, facts: Facts) -> bool:
        """True when a flow of which these facts hold has to stop."""
        raise NotImplementedError

    def named(self, name_of: NameOf) -> Condition:
        """The same condition with the names of its tasks in place of the tasks. Raises DefinitionError for an unknown task."""
        return self


class AnyComplete(Condition, frozen=True):
    """Stops a flow when some tasks are complete: successful, failed or skipped.

    Args:
        n: how many; default 1.
        tasks: which count, as objects or names; default None, for all.

    Raises:
        DefinitionError: `n` or `tasks` is wrong.
    """

    n: int = 1
    tasks: Sequence[NamedTask | str] | None = None

    def __post_init__(self) -> None:
        _check_count(self, self.n)
        if self.tasks is not None:
            _set_tasks(self, self.tasks)
            if self.n > len(self.tasks):
                raise DefinitionError(f"AnyComplete waits for {self.n} of {len(self.tasks)} tasks: n is at most their number")

    def holds(self, facts: Facts) -> bool:
        """True when `n` of the tasks are complete."""
        return facts.completed(facts.required if self.tasks is None else tuple(map(str, self.tasks))) >= self.n

    def named(self, name_of: NameOf) -> Condition:
        """See Condition."""
        return self if self.tasks is None else AnyComplete(self.n, tuple(dict.fromkeys(map(name_of, self.tasks))))


class AllComplete(Condition, frozen=True):
    """Stops a flow when certain tasks are complete: successful, failed or skipped.

    Args:
        tasks: the tasks, as objects or names.

    Raises:
        DefinitionError: `tasks` is no list of tasks, or empty.
    """

    tasks: Sequence[NamedTask | str]

    def __post_init__(self) -> None:
        _set_tasks(self, self.tasks)

    def holds(self, facts: Facts) -> bool:
        """True when all the tasks are complete."""
        return facts.completed(tuple(map(str, self.tasks))) == len(self.tasks)

    def named(self, name_of: NameOf) -> Condition:
        """See Condition."""
        return AllComplete(tuple(map(name_of, self.tasks)))


class AnyFailed(Condition, frozen=True):
    """Stops a flow when `n` tasks have failed, by default one. Raises DefinitionError when `n` is wrong."""

    n: int = 1

    def __post_init__(self) -> None:
        _check_count(self, self.n)

    def holds(self, facts: Facts) -> bool:
        """True when so many tasks have failed."""
        return sum(facts.status.get(task) == "failed" for task in facts.required) >= self.n


class MaxLLMCalls(Condition, frozen=True):
    """Stops a flow after `n` model calls of all agents together. Raises DefinitionError when `n` is wrong."""

    n: int

    def __post_init__(self) -> None:
        _check_count(self, self.n)

    def holds(self, facts: Facts) -> bool:
        """True when so many calls were made."""
        return facts.llm_calls >= self.n


class MaxAgentTurns(Condition, frozen=True):
    """Stops a flow after `n` turns of agents in it. Raises DefinitionError when `n` is wrong."""

    n: int

    def __post_init__(self) -> None:
        _check_count(self, self.n)

    def holds(self, facts: Facts) -> bool:
        """True when so many turns have ended."""
        return facts.agent_turns >= self.n


class AnyOf(Condition, frozen=True):
    """Holds when any of some conditions holds: what `|` makes."""

    conditions: tuple[Condition, ...]

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.conditions))

    def holds(self, facts: Facts) -> bool:
        """True when any of them holds."""
        return any(condition.holds(facts) for condition in self.conditions)

    def named(self, name_of: NameOf) -> Condition:
        """See Condition."""
        return AnyOf(tuple(condition.named(name_of) for condition in self.conditions))


class AllOf(Condition, frozen=True):
    """Holds when all of some conditions hold: what `&` makes."""

    conditions: tuple[Condition, ...]

    def __repr__(self) -> str:
        return " & ".join(f"({each})" if isinstance(each, AnyOf) else repr(each) for each in self.conditions)

    def holds(self, facts: Facts) -> bool:
        """True when all of them hold."""
        return all(condition.holds(facts) for condition in self.conditions)

    def named(self, name_of: NameOf) -> Condition:
        """See Condition."""
        return AllOf(tuple(condition.named(name_of) for condition in self.conditions))


def _check_count(condition: Condition, n: object) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise DefinitionError(f"{type(condition).__name__} needs n, a whole number of at least 1, not {n!r}")


def _set_tasks(condition: Condition, tasks: object) -> None:
    name = type(condition).__name__
    if not isinstance(tasks, list | tuple):
        raise DefinitionError(f"{name} needs tasks, a list of tasks or of their names, not {type(tasks).__name__}")
    if not tasks:
        raise DefinitionError(f"{name} has an empty list of tasks: name at least one")
    wrong = [each for each in tasks if not isinstance(getattr(each, "name", each), str)]
    if wrong:
        raise DefinitionError(f"{name} needs tasks, or their names, not {type(wrong[0]).__name__}")
    msgspec.structs.force_setattr(condition, "tasks", tuple(tasks))
