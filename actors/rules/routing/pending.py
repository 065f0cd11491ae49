"""Which calls of a turn wait for an answer, by its events."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event
from actors.messages.json_types import JsonObject
from actors.rules.routing.branches import tool_root


class AwaitedCall(NamedTuple):
    """A call that waits for a response of the user, and the event that makes it.

    Attributes:
        question: what its tool asks the user in the middle of the call; None for a long-running one.
        is_confirmation: the user is to agree to the call.
    """

    event: Event
    call: FunctionCall
    question: JsonObject | None = None
    is_confirmation: bool = False


def is_interim(response: Collection[str]) -> bool:
    """True if what the tool of a long-running call has returned is not the answer, which is the user's: all but an error.

    Args:
        response: the response, or its keys.
    """
    return set(response) != {"error"}


def open_calls(events: Iterable[Event]) -> list[AwaitedCall]:
    """The calls, in order, that wait for the user: long-running ones, and those whose tools ask something.

    A response of the user counts, whatever it says; what the tool of a long-running call returns does not, unless it is an error.

    Calls below an agent that is asked as a tool are left out: it cannot pause a turn, so no answer would reach it.

    Args:
        events: of one turn, oldest first.
    """
    made: dict[str, AwaitedCall] = {}
    found: dict[str, AwaitedCall] = {}
    for event in events:
        if tool_root(event.branch) is not None:
            continue
        for response in event.function_responses():
            if event.author == USER or not (_is_long_running(found.get(response.id or "")) and is_interim(response.response)):
                found.pop(response.id or "", None)
        for call in event.function_calls():
            made[call.id or ""] = AwaitedCall(event, call)
            if call.id and call.id in event.long_running_tool_ids:
                found[call.id] = AwaitedCall(event, call, None, call.id in event.actions.requested_tool_confirmations)
        for call_id, asked in event.actions.requested_inputs.items():
            if call_id in made:
                found[call_id] = made[call_id]._replace(question=asked.question, is_confirmation=asked.is_confirmation)
    return list(found.values())


def _is_long_running(open_call: AwaitedCall | None) -> bool:
    """True for a call whose answer is its result: not for one that needs consent, or whose tool asks something in its middle.

    In a flow what the tool returns is the answer: a task is done when its agent says so.
    """
    if open_call is None or open_call.question is not None or open_call.event.flow is not None:
        return False
    event, call_id = open_call.event, open_call.call.id
    return call_id in event.long_running_tool_ids and call_id not in event.actions.requested_tool_confirmations
