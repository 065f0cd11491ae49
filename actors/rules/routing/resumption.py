"""Where a turn goes on after a pause or a loss (semantics.md section 4).

A paused run is not repeated from its start: the turn re-enters the tree at its topmost supervisor, each supervisor goes on at
the child that waits, down to the agent that asked. A run that was lost with its process is not repeated either: what the log
has of it counts as done.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.event import Event
from actors.messages.json_types import JsonMapping, Progress
from actors.messages.protocol.turns import TransferRecord, TurnProgress
from actors.messages.topology import Topology
from actors.rules.routing.branches import agent_of_key, state_key


def entry(topology: Topology, caller: str, scope: str | None = None) -> str:
    """The agent to run so that the answer reaches `caller`.

    It is the topmost supervisor above the caller. LLM agents above do not count, which have handed over and wait for nothing,
    but for those that have delegated a call to the one below.

    Args:
        scope: look only at this agent and below it.

    Returns:
        The supervisor, or the caller itself when there is none.
    """
    found = below = caller
    for node in topology.lineage(caller):
        if not node.is_llm or below in node.delegates:
            found = node.name
        below = node.name
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


def through_flows(callers: Sequence[str], progress: TurnProgress) -> list[str]:
    """The callers, each agent of a flow replaced by the flow's controller, which lists those that wait as `agents`."""
    # A flow that is asked as a tool waits for no answer, so its key, which is no name, does no harm.
    flows = {agent: agent_of_key(key) for key, (_, state) in progress.agent_states.items() for agent in state.get("agents", ())}
    return list(dict.fromkeys(flows.get(caller, caller) for caller in callers))


def next_transfer(progress: TurnProgress, agent: str, branch: str | None, after_seq: int) -> TransferRecord | None:
    """The first transfer that the agent made on a branch after `after_seq`; None when it made none and still has the floor."""
    transfers = (each for each in progress.transfers if each.seq > after_seq and each.author == agent and each.branch == branch)
    return next(transfers, None)


def child_after_seq(state: tuple[int, JsonMapping] | None, child: str, after_seq: int) -> int:
    """The seq after which the events of a supervisor's child stand.

    Args:
        state: what the supervisor stored last, with its seq. A supervisor that runs its children one by one stores each child
            when it begins, and again when it begins once more; "begun" has the seqs of the children before.
        after_seq: the seq after which the supervisor's own events stand.
    """
    if state is None or state[0] <= after_seq:
        return after_seq
    seq, stored = state
    begun = stored.get("since", seq) if stored.get("child") == child else stored.get("begun", {}).get(child, after_seq)
    return max(after_seq, int(begun))


def agent_state(progress: TurnProgress, agent: str, branch: str | None, after_seq: int, path: str = "") -> tuple[int, Progress]:
    """The state that the agent stored last after `after_seq`, with its seq; `(0, {})` when it stored nothing there.

    Args:
        branch: of its run.
        path: see state_key.
    """
    seq, stored = progress.agent_states.get(state_key(agent, branch, path), (0, {}))
    return (seq, stored) if seq > after_seq else (0, {})


def is_failure(event: Event) -> bool:
    """True for the event that a failed run leaves.

    A model's response with an error code is a response, so it is none. A node of a graph that is tried again has not failed, and
    one that another node has asked for may be excused by that one.
    """
    is_response = event.finish_reason is not None or event.usage is not None or event.model_version is not None
    if event.error_code is None or event.content is not None or is_response:
        return False
    return event.node_info is None or not (event.node_info.attempt or event.node_info.has_ended)


def without_retried(own: Sequence[Event], retried_seq: int) -> Sequence[Event]:
    """The events of a run without the failures after which the turn was retried, at that place in the log."""
    return [event for event in own if event.seq > retried_seq or not is_failure(event)]
