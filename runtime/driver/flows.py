"""The turns of flows: the name of a plan, and the results of its tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors.errors import TaskFailedError
from actors.layers.flows.behaviour.controller import DEFINITION
from actors.layers.flows.definitions import Flow, FlowPlan, ResultType
from actors.layers.flows.rules.board import Board
from actors.messages.codec import encode, plain
from actors.messages.event import Event
from actors.messages.flow import TaskStatus
from actors.messages.session import TurnKey
from actors.messages.shown import Shown
from runtime.engine.deployment import FlowRegistry

ResultTypes = FlowRegistry[Mapping[str, ResultType]] | Mapping[str, Mapping[str, ResultType]]
"""The type of each task's result, by the name under which the flow was started and by task."""


class TaskResult(Shown, msgspec.Struct, frozen=True, kw_only=True):
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
    of_flows = [event for event in events if event.flow is not None]
    if not of_flows:
        return {}
    boards: dict[str, Board] = {}
    definitions: dict[str, str] = {}
    for event in of_flows:
        if event.flow is not None and not event.partial:
            boards.setdefault(event.flow.run, Board()).add(event.author, event.flow)
            progress = event.actions.agent_state or {}
            if DEFINITION in progress:
                definitions[event.flow.run] = progress[DEFINITION]
    results: dict[str, TaskResult] = {}
    for run, board in boards.items():
        types_of_flow = types.get(definitions.get(run, "")) or {}
        for name, status in board.status.items():
            result = board.results.get(name)
            if name in types_of_flow:
                result = types_of_flow[name].typed(result)
            results[name] = TaskResult(name=name, status=status, result=result, reason=board.reasons.get(name, ""))
    return results


def stopped_by(events: Sequence[Event]) -> str:
    """The condition that has stopped the newest flow in a turn's events early; "" for none."""
    marks = [event.flow for event in events if event.flow is not None and not event.partial]
    return next((mark.stopped for mark in reversed(marks) if mark.run == marks[-1].run and mark.stopped), "")


def plan_name(plan: FlowPlan, turn: TurnKey) -> str:
    """The name under which a turn's plan is sent: the same for the same turn and tasks, in any program.

    So a flow that is given again with its turn's id is found by a turn whose deployment was lost in between.
    """
    key, invocation_id = turn
    schemas = {name: None if result.is_none else result.schema for name, result in plan.results.items()}
    tools = {task: [tool.name for tool in given] for task, given in plan.tools.items()}
    content = [key.user, key.session, invocation_id, plan.nodes, plan.goal, plan.rules, schemas, tools]
    if plan.context or plan.until is not None:
        # Without them a flow keeps the name under which older logs have it.
        content += [plan.context, plan.until]
    return f"{plan.name}/{hashlib.sha256(encode(plain(content))).hexdigest()[:32]}"


def last_result(flow: Flow, tasks: Mapping[str, TaskResult]) -> Any:
    """The result of a flow's last task. Raises TaskFailedError when it has none."""
    name = flow.name_of(flow.tasks[-1])
    task = tasks.get(name, TaskResult(name=name, status="pending"))
    if task.status != "successful":
        paused = (
            "the turn waits for the answer to a long-running call: give run_task on_question=…, which answers the questions of "
            "interactive tasks, or run such a task with run_flow"
        )
        raise TaskFailedError(name, task.status, task.reason or paused)
    return task.result
