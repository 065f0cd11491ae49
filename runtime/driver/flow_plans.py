"""The plans of flows that are given to a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.definitions.agents import BaseAgent
from actors.errors import DefinitionError
from actors.layers.flows.definitions import Flow, FlowPlan, Task
from runtime.driver.services.agents import DeployedTree


def checked_plan(tree: DeployedTree, flow: Flow, tasks: Sequence[Task | str] | None) -> FlowPlan:
    """A flow's plan.

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
    tree.check_flow(flow)
    if tasks is not None:
        plan = replace(plan, goal=tuple(dict.fromkeys(flow.name_of(task) for task in tasks)))
    return plan


def one_task_flow(
    tree: DeployedTree, objective: str | Task, agents: Sequence[BaseAgent | str] | None, options: Mapping[str, Any]
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
        agents = tree.default_workers()
    return Flow([task], name="task", agents=agents or ())
