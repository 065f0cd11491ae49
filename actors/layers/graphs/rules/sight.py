"""What the log says of nodes: what an agent sees of it that is one, how the log names them, and what users have answered them
(semantics.md section 8)."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from actors.messages.event import USER, Event
from actors.messages.graph import NodeInfo, NodeTask, is_below, is_of_tool, scope_of
from actors.messages.json_types import JsonValue
from actors.messages.topology import CHAT, TASK
from actors.rules.checks.user_message import answered


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


class UserAnswer(NamedTuple):
    """An answer. `seq`: the place of the message that has it."""

    seq: int
    value: JsonValue


class UserAnswers:
    """The answers of a turn, by the id of the call, and where its messages stand."""

    def __init__(self) -> None:
        self._given: dict[str, list[UserAnswer]] = {}
        self._messages: list[int] = []

    def add(self, message: Event) -> None:
        """Take in a message of the user: later ones after earlier ones."""
        self._messages.append(message.seq)
        for response in message.function_responses():
            if response.id:
                self._given.setdefault(response.id, []).append(UserAnswer(message.seq, answered(response.response)))

    def after(self, call_id: str, seq: int) -> UserAnswer | None:
        """The latest answer to a call that came after a place of the log; None without one."""
        latest = self._given.get(call_id, [None])[-1]
        return latest if latest is not None and latest.seq > seq else None

    def has_between(self, call_id: str, after_seq: float, before_seq: float) -> bool:
        """True when a call was answered between two places of the log."""
        return any(after_seq < answer.seq < before_seq for answer in self._given.get(call_id, ()))

    def goes_on_between(self, after_seq: float, before_seq: float) -> bool:
        """True when the user has said something between two places of the log."""
        index = bisect_right(self._messages, after_seq)
        return index < len(self._messages) and self._messages[index] < before_seq
