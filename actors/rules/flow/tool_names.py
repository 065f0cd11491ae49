"""The names of the controller's own tools."""

from __future__ import annotations

END_TURN = "end_turn"
CREATE_TASKS = "create_tasks"
_SUCCEED = "succeed_"
_FAIL = "fail_"

NAME_LENGTH = 48
"""How long a task's name may be: models take 64 characters of a tool's name."""


def succeed_tool(task: str) -> str:
    """The tool that finishes a task with its result."""
    return f"{_SUCCEED}{task}"


def fail_tool(task: str) -> str:
    """The tool that gives a task up."""
    return f"{_FAIL}{task}"


def is_controllers(name: str) -> bool:
    """True for names that no other tool may have in a flow."""
    return name in (END_TURN, CREATE_TASKS) or name.startswith((_SUCCEED, _FAIL))
