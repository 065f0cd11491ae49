"""Which turns fit what is looked for, and which calls of a turn wait for the user.

Rules of this file:

- No event is read to find turns: their records say what fits, and what was said is not looked at.
- A turn fits when all that is given fits. What is not given fits any turn.
- A part of the error is enough, in small or capital letters; and the beginning of the id, since the turns of a map begin alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from actors.layers.listing.messages import TurnMatch
from actors.messages.content import FunctionCall
from actors.messages.event import USER, Event, RequestedInput
from actors.messages.json_types import JsonObject
from actors.messages.turn_info import TurnInfo
from actors.rules.routing.pending import EventCalls, PendingCalls


def fits(turn: TurnInfo, wanted: TurnMatch) -> bool:
    """True when the turn is one of those that are wanted."""
    return (
        wanted.agent in ("", turn.agent)
        and wanted.version in ("", turn.version)
        and wanted.error.casefold() in turn.error.casefold()
        and turn.invocation_id.startswith(wanted.invocation)
        and (turn.failed_tools > 0 or not wanted.failed_tools)
    )


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


def open_calls(events: Iterable[Event]) -> list[AwaitedCall]:
    """The calls that wait for the user, in the order in which they began to.

    Args:
        events: of one turn, oldest first.
    """
    pending, made, asked = PendingCalls(), dict[str, AwaitedCall](), dict[str, RequestedInput]()
    for event in events:
        pending.fold(calls_of(event), event.seq)
        for call in event.function_calls():
            call_id = call.id or ""
            made[call_id] = AwaitedCall(event, call, None, call_id in event.actions.requested_tool_confirmations)
            asked.pop(call_id, None)
        asked.update(event.actions.requested_inputs)
    return [_asked(made[call_id], asked.get(call_id)) for call_id in pending.waiting]


def _asked(call: AwaitedCall, asked: RequestedInput | None) -> AwaitedCall:
    return call if asked is None else call._replace(question=asked.question, is_confirmation=asked.is_confirmation)


def calls_of(event: Event) -> EventCalls:
    """The part of an event that is about function calls."""
    return EventCalls(
        event.author,
        event.branch,
        {call.id: call.name for call in event.function_calls() if call.id},
        [(response.id, response.response) for response in event.function_responses() if response.id],
        event.long_running_tool_ids,
        event.actions.requested_tool_confirmations,
        event.actions.requested_inputs,
        event.flow is not None,
        event.node_info.path if event.node_info is not None else "",
        event.author == USER and event.branch is None and not event.steers,
    )
