"""Which calls of a turn wait for an answer, by its events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from actors.messages.content import FunctionCall
from actors.messages.event import Event
from actors.rules.prompt.branches import tool_root


class OpenCall(NamedTuple):
    """A long-running call without a response, and the event that makes it."""

    event: Event
    call: FunctionCall


def open_calls(events: Iterable[Event]) -> list[OpenCall]:
    """The long-running calls, in order, that no event answers. An answer with any content counts, also an interim one.

    Calls below an agent that is asked as a tool are left out: it cannot pause a turn, so no answer would reach it.

    Args:
        events: of one turn, oldest first.
    """
    found: dict[str, OpenCall] = {}
    for event in events:
        if tool_root(event.branch) is not None:
            continue
        for response in event.function_responses():
            found.pop(response.id or "", None)
        for call in event.function_calls():
            if call.id and call.id in event.long_running_tool_ids:
                found[call.id] = OpenCall(event, call)
    return list(found.values())
