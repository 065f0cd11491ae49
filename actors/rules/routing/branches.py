"""Branches: dotted paths that say which events parallel agents see of each other (semantics.md section 4, 5.4)."""

from __future__ import annotations

from actors.messages.graph import OF_CALL

TOOL_MARK = "@"
"""Begins the last segment of a tool branch: the branch of an agent that runs as a tool."""

_PARTING = str.maketrans("./@", "___")


def tool_branch(branch: str | None, agent: str, call_id: str) -> str:
    """The branch of `agent` when an agent on `branch` calls it as a tool with that call."""
    segment = f"{TOOL_MARK}{agent}:{call_id.replace('.', '_')}"
    return f"{branch}.{segment}" if branch else segment


def call_segment(call_id: str) -> str:
    """A call in the segment of a branch, and in that of a path: without the signs that part these."""
    return call_id.translate(_PARTING)


def tool_run(tool: str, call_id: str) -> str:
    """The run in paths that stands for a call of a tool: the nodes that the tool runs are below it."""
    return f"{tool}@{OF_CALL}{call_segment(call_id)}"


def delegate_branch(branch: str | None, agent: str, call_id: str) -> str:
    """The branch of a child that works for a call of an agent on `branch`."""
    segment = f"{agent}@{call_segment(call_id)}"
    return f"{branch}.{segment}" if branch else segment


def tool_root(branch: str | None) -> str | None:
    """The innermost tool branch that `branch` is or is below; None when there is none."""
    if not branch or TOOL_MARK not in branch:
        return None
    begin = branch.rfind(f".{TOOL_MARK}") + 1
    if not begin and branch[0] != TOOL_MARK:
        # The branch of a node of a graph, of which there are many.
        return None
    end = branch.find(".", begin)
    return branch if end < 0 else branch[:end]


def speaker(author: str, branch: str | None) -> str:
    """The author of an event as stores keep it: marked on a tool branch, since the agent does not talk to the user there."""
    return TOOL_MARK + author if branch and tool_root(branch) is not None else author


def state_key(agent: str, branch: str | None, path: str = "") -> str:
    """Names what an agent on a branch stores of its progress: an agent that is asked by several calls has a run for each.

    Args:
        path: of the run of the node that it is, or is part of; an agent may be several nodes at a time.
    """
    root = tool_root(branch)
    key = agent if root is None else f"{root}/{agent}"
    return f"{key} {path}" if path else key


def agent_of_key(key: str) -> str:
    """The agent of a key; of one on a tool branch a text that is no name."""
    return key.partition(" ")[0]


def is_below_branch(branch: str | None, above: str) -> bool:
    """True when `branch` is `above` or below it."""
    return branch is not None and (branch == above or branch.startswith(above + "."))


def is_visible(event_branch: str | None, branch: str | None) -> bool:
    """True when an agent on `branch` sees events on `event_branch`.

    It sees its own branch, the branches above it, and events without a branch; an agent without a branch sees all. A tool
    branch is
    closed: what is on or below it is not seen outside, and an agent on it sees nothing of outside.
    """
    if event_branch == branch:
        return True
    if tool_root(event_branch) != tool_root(branch):
        return False
    return not event_branch or not branch or branch.startswith(event_branch + ".")
