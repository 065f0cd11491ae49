"""The part of the system instruction that describes an agent's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.layers.flows.rules.tool_names import ASK_USER, END_TURN, fail_tool, succeed_tool
from actors.messages.json_types import JsonValue


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One task that an agent works on.

    Attributes:
        objective: what to achieve, with its placeholders filled in.
        result: what the result has to be, in words; "" for a task without one.
        parent: the name and objective of the task that it is a part of; "" without one.
        instructions: how to go about it, with its placeholders filled in; "" for none.
        context: values that belong to it, by name, as texts.
        is_interactive: the user can be asked about it.
        ended_by: the agents that may end it, when the agent is none of them; empty when it may end it itself.
    """

    name: str
    objective: str
    result: str = ""
    parent: str = ""
    instructions: str = ""
    context: Mapping[str, str] = {}
    is_interactive: bool = False
    ended_by: Sequence[str] = ()


class CompleteTask(msgspec.Struct, frozen=True, kw_only=True):
    """A complete task upstream of the agent's tasks.

    Attributes:
        objective: what was to be achieved, with its placeholders filled in.
        status: successful, failed or skipped.
        text: its result, or the reason why it has none; "" when there is neither.
    """

    name: str
    objective: str
    status: str
    text: str = ""


def briefing(briefs: Sequence[Brief], complete: Sequence[CompleteTask], peers: Sequence[str]) -> str:
    """The text: the agent's tasks, the results of tasks upstream, and how to finish a task or hand over.

    Args:
        complete: the complete tasks upstream of them.
        peers: the agents that can go on when the agent ends its turn.
    """
    return "\n\n".join(filter(None, [_tasks(briefs), _upstream(complete), _rules(briefs, peers)]))


def _tasks(briefs: Sequence[Brief]) -> str:
    listed = "\n".join(_task(brief) for brief in briefs)
    return f"You work on these tasks:\n{listed}"


def _task(brief: Brief) -> str:
    text = f"- `{brief.name}`: {brief.objective or 'no objective is given beyond its name'}"
    text += f"\n  It is a part of {brief.parent}" if brief.parent else ""
    text += f"\n  How to go about it: {brief.instructions}" if brief.instructions else ""
    text += "\n  What belongs to it:" if brief.context else ""
    text += "".join(f"\n  - {key}: {value}" for key, value in brief.context.items())
    text += f"\n  You can ask the user about it with `{ASK_USER}`." if brief.is_interactive else ""
    return text + (f"\n  Its result: {brief.result}" if brief.result else "\n  It has no result.")


def _upstream(complete: Sequence[CompleteTask]) -> str:
    if not complete:
        return ""
    listed = "\n".join(f"- `{task.name}` ({task.status}): {task.objective}" + _result(task) for task in complete)
    return f"These tasks were done before, for yours:\n{listed}"


def _result(task: CompleteTask) -> str:
    if not task.text:
        return ""
    return f"\n  {'Result' if task.status == 'successful' else 'Reason'}: {task.text}"


def _rules(briefs: Sequence[Brief], peers: Sequence[str]) -> str:
    mine = [brief.name for brief in briefs if not brief.ended_by]
    succeed, fail = (", ".join(f"`{tool(name)}`" for name in mine) for tool in (succeed_tool, fail_tool))
    sentences = []
    if mine:
        sentences.append(f"A task is done only when you have called its function: {succeed}.")
        sentences.append(f"When a task cannot be done, call {fail} and say why.")
    for brief in briefs:
        if brief.ended_by:
            sentences.append(
                f"You work on `{brief.name}`, but only {' or '.join(brief.ended_by)} can end it: when you have done your part, "
                f"call `{END_TURN}`."
            )
    beside = "beside such calls " if mine else ""
    sentences.append(f"What you write {beside}is seen by the agents that work on these tasks after you.")
    if peers:
        sentences.append(f"To let somebody else go on, call `{END_TURN}`; these can: {', '.join(peers)}.")
    return " ".join(sentences)


OBJECTIVE_LENGTH = 2_000
"""Characters of an objective that later tasks are shown."""


def shortened(objective: str) -> str:
    """An objective without what is more than OBJECTIVE_LENGTH: state that is filled in may be long."""
    return objective if len(objective) <= OBJECTIVE_LENGTH else f"{objective[:OBJECTIVE_LENGTH]}…"


def result_text(result: JsonValue) -> str:
    """A task's result, or another value, as a text; "" for None."""
    if result is None:
        return ""
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()
