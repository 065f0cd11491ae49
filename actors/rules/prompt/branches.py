"""Branches: dotted paths that say which events agents at work side by side see of each other (semantics.md 4, 5.4)."""

from __future__ import annotations

TOOL_MARK = "@"
"""Begins the last segment of the branch on which an agent runs that is asked as a tool."""


def tool_branch(branch: str | None, agent: str, call_id: str) -> str:
    """The branch on which the agent runs that `agent`, itself on `branch`, asks by that call."""
    segment = f"{TOOL_MARK}{agent}:{call_id.replace('.', '_')}"
    return f"{branch}.{segment}" if branch else segment


def tool_root(branch: str | None) -> str | None:
    """The innermost tool branch that `branch` is on or below; None outside of any."""
    if not branch or TOOL_MARK not in branch:
        return None
    segments = branch.split(".")
    while segments and not segments[-1].startswith(TOOL_MARK):
        segments.pop()
    return ".".join(segments) or None


def is_below_branch(branch: str | None, above: str) -> bool:
    """True when `branch` is `above` or begins with it, by dotted path."""
    return branch is not None and (branch == above or branch.startswith(above + "."))


def is_visible(event_branch: str | None, branch: str | None) -> bool:
    """True when an event of `event_branch` belongs to what is seen on `branch`.

    It is the same, or an ancestor by dotted path, or one of them is empty. A tool branch is a world of its own: nobody
    outside sees what is on or below it, and who is there sees nothing of outside.
    """
    if tool_root(event_branch) != tool_root(branch):
        return False
    if not event_branch or not branch or event_branch == branch:
        return True
    return branch.startswith(event_branch + ".")
