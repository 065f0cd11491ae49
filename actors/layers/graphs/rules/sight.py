"""What an agent sees of the log that is a node of a graph, or part of the run of one, and how the log names the node
(semantics.md section 8)."""

from __future__ import annotations

import msgspec

from actors.messages.event import USER, Event
from actors.messages.graph import NodeInfo, NodeTask, is_below, is_of_tool, scope_of
from actors.messages.topology import CHAT, TASK


def is_said_before(event: Event, agent: str, path: str, invocation_id: str, *, is_chat: bool) -> bool:
    """True for what an agent sees of the conversation around its run: the user's words, and its own of earlier turns.

    Args:
        path: of its run.
        invocation_id: of its turn.
        is_chat: all that it has said counts, and not only in runs at that path.
    """
    is_of_run = is_chat or path_of(event) == path
    is_earlier = event.author == agent and event.invocation_id != invocation_id and is_of_run
    return is_earlier or (event.author == USER and event.node_info is None and not any(event.function_responses()))


def is_of_run(event: Event, path: str, *, is_part: bool) -> bool:
    """True for the events of a run.

    Args:
        path: of the run of the node.
        is_part: the agent is part of that run, and sees the runs below the path.
    """
    found = path_of(event)
    return found == path or (is_part and is_below(found, path))


def shown(event: Event, path: str) -> Event | None:
    """An event of a run as its agent is shown it; None where it is not."""
    found = path_of(event)
    if is_of_tool(found.removeprefix(path)):
        return None
    # What the user has said to this very run is part of what it sees; and so is a run that a tool has asked for to itself.
    is_plain = event.author == USER or is_of_tool(found)
    return msgspec.structs.replace(event, node_info=None) if is_plain else event


def path_of(event: Event) -> str:
    """The path of the run that an event is from; "" for none."""
    return event.node_info.path if event.node_info is not None else ""


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
