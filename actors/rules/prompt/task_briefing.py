"""What an agent is told about its tasks, in its system instruction."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.rules.flow.tool_names import END_TURN, fail_tool, succeed_tool


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One task of an agent.

    Attributes:
        objective: filled in.
        result: what its result is to be, in words; "" for a task without one.
        parent: the name and objective of the task that it is a part of, "" without one.
    """

    name: str
    objective: str
    result: str = ""
    parent: str = ""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is complete and was needed for the agent's own; `told`: what came of it, as text."""

    name: str
    objective: str
    status: str
    told: str = ""


def briefing(briefs: Sequence[Brief], known: Sequence[Known], peers: Sequence[str]) -> str:
    """The text: the tasks, what came of those before them, and how to go on."""
    return "\n\n".join(filter(None, [_tasks(briefs), _before(known), _rules(briefs, peers)]))


def _tasks(briefs: Sequence[Brief]) -> str:
    listed = "\n".join(_task(brief) for brief in briefs)
    return f"You work on these tasks:\n{listed}"


def _task(brief: Brief) -> str:
    told = f"- `{brief.name}`: {brief.objective or 'no objective is given beyond its name'}"
    told += f"\n  It is a part of {brief.parent}" if brief.parent else ""
    return told + (f"\n  Its result: {brief.result}" if brief.result else "\n  It has no result.")


def _before(known: Sequence[Known]) -> str:
    if not known:
        return ""
    listed = "\n".join(f"- `{task.name}` ({task.status}): {task.objective}" + _result(task) for task in known)
    return f"These tasks were done before, for yours:\n{listed}"


def _result(task: Known) -> str:
    if not task.told:
        return ""
    return f"\n  {'Result' if task.status == 'successful' else 'Reason'}: {task.told}"


def _rules(briefs: Sequence[Brief], peers: Sequence[str]) -> str:
    succeed = ", ".join(f"`{succeed_tool(brief.name)}`" for brief in briefs)
    fail = ", ".join(f"`{fail_tool(brief.name)}`" for brief in briefs)
    told = (
        f"A task is done only when you have called its function: {succeed}. "
        f"When a task cannot be done, call {fail} and say why. What you write beside such calls is seen by the agents that work "
        "on these tasks after you."
    )
    if peers:
        told += f" To let somebody else go on, call `{END_TURN}`; these can: {', '.join(peers)}."
    return told
