"""Where a turn goes on that was paused, when its question is answered, or that was lost (semantics.md 4, design.md 5).

A run that was paused is not repeated from its start: the turn re-enters the tree where it was, each supervisor at the child
that waits, down to the agent that asked. Nor is one that was lost with its process: what the log has of it counts as done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.messages.event import Event
from actors.messages.protocol.turns import TransferRecord, TurnProgress
from actors.messages.topology import Topology


def entry(topology: Topology, caller: str, scope: str | None = None) -> str:
    """The agent to run so that the answer reaches `caller`.

    It is the topmost supervisor above the caller, since an LLM agent does not supervise its children: it handed over to them.

    Args:
        scope: look only at this agent and below it.

    Returns:
        The supervisor, or the caller itself when there is none.
    """
    found = caller
    for node in topology.lineage(caller):
        if not node.is_llm:
            found = node.name
        if node.name == scope:
            break
    return found


def child_towards(topology: Topology, parent: str, caller: str) -> str | None:
    """The child of `parent` that is `caller` or has it below; None when the caller is not below the parent."""
    below = caller
    for node in topology.lineage(caller):
        if node.name == parent:
            return below if below != parent else None
        below = node.name
    return None


def through_flows(callers: Sequence[str], so_far: TurnProgress) -> list[str]:
    """The callers, with the controller of the flow in the place of each that waits in one: it has noted them as `agents`."""
    flows = {agent: controller for controller, (_, noted) in so_far.progress.items() for agent in noted.get("agents", ())}
    return list(dict.fromkeys(flows.get(caller, caller) for caller in callers))


def handover(so_far: TurnProgress, agent: str, branch: str | None, since: int) -> TransferRecord | None:
    """The first transfer by the agent on a branch behind a place of the log, or None: then it has the floor."""
    made = (each for each in so_far.handovers if each.seq > since and each.author == agent and each.branch == branch)
    return next(made, None)


def begun_behind(noted: tuple[int, Mapping[str, Any]] | None, child: str, since: int) -> int:
    """The place of the log behind which the run of a supervisor's child began.

    Args:
        noted: what the supervisor noted last, with its place. One that runs its children one by one notes each when it begins,
            and each does so when it begins one again; "begun" holds the places of those before.
        since: where the supervisor's own run began.
    """
    if noted is None or noted[0] <= since:
        return since
    seq, told = noted
    begun = told.get("since", seq) if told.get("child") == child else told.get("begun", {}).get(child, since)
    return max(since, int(begun))


def progress(so_far: TurnProgress, agent: str, since: int) -> tuple[int, dict[str, Any]]:
    """What the agent noted last behind a place, and where; `(0, {})` when it has noted nothing there."""
    seq, noted = so_far.progress.get(agent, (0, {}))
    return (seq, noted) if seq > since else (0, {})


def is_failure(event: Event) -> bool:
    """True for the event that a failed run leaves. A model that answers with an error code has answered: that is none."""
    return event.error_code is not None and event.content is None and event.finish_reason is None and event.usage is None
