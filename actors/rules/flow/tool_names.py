"""The names of the tools by which agents work on tasks of a flow."""

from __future__ import annotations

END_TURN = "end_turn"
CREATE_TASKS = "create_tasks"
ASK_USER = "ask_user"
_SUCCEED = "succeed_"
_FAIL = "fail_"

NAME_LENGTH = 48
"""Characters of a task's name, which becomes part of a tool's name; models take 64 characters of that."""


def succeed_tool(task: str) -> str:
    """The name of the tool that finishes a task with its result."""
    return f"{_SUCCEED}{task}"


def fail_tool(task: str) -> str:
    """The name of the tool that gives a task up."""
    return f"{_FAIL}{task}"


def is_controllers(name: str) -> bool:
    """True for the name of such a tool, which no other tool may have in a flow."""
    return name in (END_TURN, CREATE_TASKS) or name.startswith((_SUCCEED, _FAIL))
