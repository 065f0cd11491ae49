"""When a process of agents ends itself for its memory, before something else ends other processes for it."""

from __future__ import annotations

RESERVE = 0.03
"""Ray ends processes above a share of a node's memory, and those first that it may start again: Runner and Session actor. So the
process that has taken the memory ends this much of the node's memory earlier."""

LARGE = 0.1
"""Share of a node's memory above which a process counts as the one that has taken it."""


def why_too_large(own: int, *, limit: int, used: int, total: int, threshold: float) -> str:
    """Why a process has to end itself; "": it need not.

    Args:
        own: bytes that only it uses; 0: unknown.
        limit: bytes that its agents' placement gives it; 0: as many as it likes.
        used, total: bytes of the node; 0: unknown.
        threshold: the share above which Ray ends processes.
    """
    if limit and own > limit:
        return f"it uses {_mib(own)}, more than the {_mib(limit)} of its agents' Placement(memory=…)"
    if total and used > total * (threshold - RESERVE) and own > total * LARGE:
        return f"it uses {_mib(own)}, and {_mib(used)} of the node's {_mib(total)} are used: Ray would end other processes next"
    return ""


def _mib(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"
