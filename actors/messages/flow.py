"""What the log tells of a flow: its tasks, what becomes of them, and whose turn it is (seed 003; semantics.md section 7).

Every event of a flow carries a `FlowMark`. The marks alone, in the order of the log, say how far the flow is: nobody keeps
anything else of it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

TaskStatus = Literal["pending", "running", "successful", "failed", "skipped"]

COMPLETE: frozenset[str] = frozenset({"successful", "failed", "skipped"})
"""What a task does not leave again."""

CONTROLLER = "@controller"
"""The agent that carries out flows which are no part of the tree. No identifier, so that no agent of a user is called so."""


class _Noun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Common shape: immutable, camelCase in JSON, defaults not written."""


class TaskNode(_Noun, frozen=True, kw_only=True):
    """A task as everybody needs to know it; its Python parts, result type and tools, stay in the flow's definition.

    Attributes:
        name: unique in the flow.
        objective: what is to be achieved.
        agents: who may work on it.
        depends_on: tasks that have to be complete first.
        parent: the task that this one is a part of, and that depends on it.
        on_failed_dependency: "skip" gives the task up when one that it needs has failed or was skipped, "run" does not mind.
        max_llm_calls: model calls that may be made for it; None is any number.
        labels: of a task made while the flow ran: the texts of which its result is one; empty: its result is a text.
    """

    name: str
    objective: str = ""
    agents: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    parent: str | None = None
    on_failed_dependency: Literal["skip", "run"] = "skip"
    max_llm_calls: int | None = None
    labels: tuple[str, ...] = ()


class TaskChange(_Noun, frozen=True, kw_only=True):
    """A task's new status.

    Attributes:
        result: of a successful one, as plain data.
        reason: why it failed or was skipped.
    """

    status: TaskStatus
    result: Any = None
    reason: str = ""


class FlowMark(_Noun, frozen=True, kw_only=True):
    """What an event says of a flow.

    Attributes:
        run: which run of which flow; unique in the log.
        tasks: the tasks that the event was made for; empty when it belongs to none.
        round: the number of the model call that it belongs to, from 1; 0 for events of the controller.
        llm_calls: model calls that it took.
        goal: in the first event of a run: the tasks to complete. What they need is done as well.
        created: tasks that there are from now on.
        ready: tasks that can be worked on from now on.
        changes: new statuses, by task.
        turns: turns that begin, or get other tasks: agents with the tasks that they are given.
        ends_turn: the author has ended its turn.
        next_agent: whom it has named as the next.
    """

    run: str
    tasks: tuple[str, ...] = ()
    round: int = 0
    llm_calls: int = 0
    goal: tuple[str, ...] = ()
    created: tuple[TaskNode, ...] = ()
    ready: tuple[str, ...] = ()
    changes: dict[str, TaskChange] = {}
    turns: dict[str, tuple[str, ...]] = {}
    ends_turn: bool = False
    next_agent: str | None = None


class Work(_Noun, frozen=True, kw_only=True):
    """What the controller wants of an agent: one round, that is one model call and the tools that it calls.

    Attributes:
        definition: under which the flow's definition is found.
        run, round: see FlowMark.
        tasks: those that the agent is given.
        peers: who else may work on them.
        begins: a turn of the agent begins with this round.
    """

    definition: str
    run: str
    round: int
    tasks: tuple[str, ...]
    peers: tuple[str, ...] = ()
    begins: bool = False
