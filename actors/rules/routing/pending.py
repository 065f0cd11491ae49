"""Which calls of a turn wait for an answer, by its events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from actors.messages.content import FunctionCall
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.rules.prompt.branches import tool_root


class OpenCall(NamedTuple):
    """A call that waits for a response of the user, and the event that makes it.

    Attributes:
        question: what its tool asks the user in the middle of the call; None for a long-running one.
    """

    event: Event
    call: FunctionCall
    question: JsonObject | None = None


def open_calls(events: Iterable[Event]) -> list[OpenCall]:
    """The calls, in order, that wait for the user: long-running ones, and those whose tools ask something.

    An answer with any content counts, also an interim one.

    Calls below an agent that is asked as a tool are left out: it cannot pause a turn, so no answer would reach it.

    Args:
        events: of one turn, oldest first.
    """
    made: dict[str, OpenCall] = {}
    found: dict[str, OpenCall] = {}
    for event in events:
        if tool_root(event.branch) is not None:
            continue
        for response in event.function_responses():
            found.pop(response.id or "", None)
        for call in event.function_calls():
            made[call.id or ""] = OpenCall(event, call)
            if call.id and call.id in event.long_running_tool_ids:
                found[call.id] = OpenCall(event, call)
        for call_id, asked in event.actions.requested_inputs.items():
            if call_id in made:
                found[call_id] = made[call_id]._replace(question=asked.question)
    return list(found.values())
