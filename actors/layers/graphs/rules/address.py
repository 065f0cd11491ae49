"""How the log says which node an event comes from (semantics.md section 8)."""

from __future__ import annotations

from actors.messages.event import USER, Event
from actors.messages.graph import NodeInfo, NodeTask, scope_of
from actors.messages.topology import CHAT, TASK


def node_info(event: Event, task: NodeTask, mode: str | None) -> NodeInfo | None:
    """The node that an event of its run comes from; None for an event of the user.

    Args:
        task: what the run is asked.
        mode: see LlmAgent; None for any other agent.
    """
    if event.author == USER:
        return None
    if mode == CHAT:
        return NodeInfo(path=task.path)
    if mode == TASK:
        output_for = task.output_for if event.output is not None else ()
        scope = scope_of(task.path, is_delegate=task.is_delegated)
        return NodeInfo(path=task.path, output_for=output_for, isolation_scope=scope)
    says = event.is_final_response() and event.content is not None and not event.long_running_tool_ids
    is_output = says and event.output is None
    return NodeInfo(path=task.path, output_for=task.output_for if says else (), message_as_output=is_output)
