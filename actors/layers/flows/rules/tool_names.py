"""The names of the tools by which agents work on tasks of a flow."""

from __future__ import annotations

from actors.errors import AgentTreeError

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


def refuse_other_question(flow: str, agent: str, tool: str) -> None:
    """Check that a tool of an agent of an interactive task is no other `ask_user`. Raises AgentTreeError."""
    if tool == ASK_USER:
        raise AgentTreeError(
            f"flow {flow!r}: agent {agent!r} works on an interactive task and gets a tool {ASK_USER!r}, but has another one: "
            "rename that, or leave interactive out"
        )


def is_controllers(name: str) -> bool:
    """True for the name of such a tool, which no other tool may have in a flow."""
    return name in (END_TURN, CREATE_TASKS) or name.startswith((_SUCCEED, _FAIL))
