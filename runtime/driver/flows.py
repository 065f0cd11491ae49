"""What the driver knows of flows: how to start them, and how to read the results of their tasks."""

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
"""The type of each task's result, by the name under which the flow was started and by task."""


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended, or how far it is.

    Attributes:
        status: pending, running, successful, failed or skipped.
        result: the result of a successful task, of the task's `result_type`.
        reason: why the task failed or was skipped.
    """

    name: str
    status: TaskStatus
    result: Any = None
    reason: str = ""


def task_results(events: Sequence[Event], types: ResultTypes) -> dict[str, TaskResult]:
    """The results of the tasks in a turn's events, by name. Where a flow ran several times, the last run counts."""
    boards: dict[str, Board] = {}
    definitions: dict[str, str] = {}
    for event in events:
        if event.flow is not None and not event.partial:
            boards.setdefault(event.flow.run, Board()).add(event.author, event.flow)
            progress = event.actions.agent_state or {}
            if DEFINITION in progress:
                definitions[event.flow.run] = progress[DEFINITION]
    results: dict[str, TaskResult] = {}
    for run, board in boards.items():
        types_of_flow = types.get(definitions.get(run, ""), {})
        for name, status in board.status.items():
            result = board.results.get(name)
            if name in types_of_flow:
                result = types_of_flow[name].typed(result)
            results[name] = TaskResult(name=name, status=status, result=result, reason=board.reasons.get(name, ""))
    return results


def named_plan(tree: AgentTree, flow: Flow, tasks: Sequence[Task | str] | None) -> tuple[str, FlowPlan]:
    """A flow's plan, and a new name under which to send it.

    Args:
        tasks: the tasks to complete, with all that they depend on; None for all.

    Raises:
        DefinitionError: `flow` is no Flow, has no tasks, lacks one of `tasks`, or has an agent that is not in the tree.
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


def one_task_flow(
    tree: AgentTree, objective: str | Task, agents: Sequence[Agent | str] | None, options: Mapping[str, Any]
) -> Flow:
    """A flow with a single task.

    Args:
        agents: the agents that may work on it; None for the root, or for all agents of the flow that is the root.
        options: fields of Task.

    Raises:
        DefinitionError: the task is defined wrongly, or no agent can work on it.
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


def last_result(flow: Flow, tasks: Mapping[str, TaskResult]) -> Any:
    """The result of a flow's last task. Raises TaskFailedError when it has none."""
    name = flow.name_of(flow.tasks[-1])
    task = tasks.get(name, TaskResult(name=name, status="pending"))
    if task.status != "successful":
        paused = "the turn waits for the answer to a long-running call: run such a task with run_flow"
        raise TaskFailedError(name, task.status, task.reason or paused)
    return task.result
