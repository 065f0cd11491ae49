"""Flows and tasks, for the driver: how they are started, and what came of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from actors.behaviours.flow.controller import DEFINITION
from actors.definitions.agents import Agent, LlmAgent
from actors.definitions.flows import Flow, FlowPlan, ResultType, Task
from actors.definitions.tree import AgentTree
from actors.errors import DefinitionError, TaskFailedError
from actors.messages.event import Event
from actors.messages.flow import TaskStatus
from actors.rules.flow.board import Board

ResultTypes = Mapping[str, Mapping[str, ResultType]]
"""Types of results by task, by the name under which the flow's definition was given."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of a task.

    Attributes:
        status: pending, running, successful, failed or skipped.
        result: of a successful one, of the task's `result_type`.
        reason: why it failed or was skipped.
    """

    name: str
    status: TaskStatus
    result: Any = None
    reason: str = ""


def task_results(events: Sequence[Event], types: ResultTypes) -> dict[str, TaskResult]:
    """The tasks of the flows that events tell of, by name; of a flow that was run again, as it was the last time."""
    boards: dict[str, Board] = {}
    definitions: dict[str, str] = {}
    for event in events:
        if event.flow is not None and not event.partial:
            boards.setdefault(event.flow.run, Board()).add(event.author, event.flow)
            noted = event.actions.agent_state or {}
            if DEFINITION in noted:
                definitions[event.flow.run] = noted[DEFINITION]
    found: dict[str, TaskResult] = {}
    for run, board in boards.items():
        known = types.get(definitions.get(run, ""), {})
        for name, status in board.status.items():
            result = board.results.get(name)
            if name in known:
                result = known[name].typed(result)
            found[name] = TaskResult(name=name, status=status, result=result, reason=board.reasons.get(name, ""))
    return found


def planned(tree: AgentTree, flow: Flow, tasks: Sequence[Task | str] | None) -> tuple[str, FlowPlan]:
    """A flow as it is sent, under a name of its own.

    Args:
        tasks: those that are to be completed, with what they need; None for all.

    Raises:
        DefinitionError: it is no flow, has no tasks or not those, or an agent of it is not in the tree.
    """
    if not isinstance(flow, Flow):
        raise DefinitionError(f"run_flow needs a Flow, not {type(flow).__name__}")
    plan = flow.plan
    if not plan.nodes:
        raise DefinitionError(f"flow {flow.name!r} has no tasks")
    tree.check_workers(flow.name, plan.rules.agents)
    for name, agent in flow.members.items():
        if agent is not None and tree.find(name) != agent:
            raise DefinitionError(
                f"flow {flow.name!r}: agent {name!r} is another than the one of that name in the tree: "
                "use that one or its name, or make the Runtime with the flow"
            )
    if tasks is not None:
        plan = replace(plan, goal=tuple(dict.fromkeys(flow.name_of(task) for task in tasks)))
    return f"{flow.name}/{uuid.uuid4().hex}", plan


def flow_of(tree: AgentTree, objective: str | Task, agents: Sequence[Agent | str] | None, options: Mapping[str, Any]) -> Flow:
    """The flow of a single task.

    Args:
        agents: who works on it; None for the root, or for all agents of the flow that is the root.
        options: fields of Task.

    Raises:
        DefinitionError: the task is defined wrongly, or nobody can work on it.
    """
    if isinstance(objective, Task):
        if options:
            raise DefinitionError(f"run_task was given a Task: give it {', '.join(sorted(options))} when it is made")
        task = objective
    else:
        task = Task(objective, **options)
    if agents is None and not task.agents:
        agents = [tree.root] if isinstance(tree.root, LlmAgent) else list(getattr(tree.root, "agent_names", ()))
        if not agents:
            raise DefinitionError(f"run_task needs agents: the root {tree.root.name!r} is none that can work on tasks")
    return Flow([task], name="task", agents=agents or ())


def result_of(flow: Flow, tasks: Mapping[str, TaskResult]) -> Any:
    """The result of a flow's last task. Raises TaskFailedError, when it has none."""
    name = flow.name_of(flow.tasks[-1])
    found = tasks.get(name)
    if found is None or found.status != "successful":
        status = found.status if found is not None else "pending"
        paused = "the turn waits for the answer to a long-running call: run such a task with run_flow"
        raise TaskFailedError(name, status, (found.reason if found is not None else "") or paused)
    return found.result
