"""What a turn has given: the text of its last speaker, or the output of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.event import Event
from actors.messages.json_types import JsonValue
from actors.messages.protocol.runs import AnyOutcome, Finished


def output_of(outcome: AnyOutcome | None) -> JsonValue:
    """The output of the graph with which a turn has ended; None for none."""
    return outcome.output if isinstance(outcome, Finished) else None


def text_of(events: Sequence[Event], outcome: AnyOutcome | None = None) -> str:
    """The text of the newest final response of a turn that has any, or the output of a graph that is newer, as text; else ""."""
    given = output_event(events)
    if given is not None:
        output = output_of(outcome)
        return as_text(given.output if output is None else output)
    return next((event.text for event in reversed(events) if event.is_final_response() and event.text), "")


def output_event(events: Sequence[Event]) -> Event | None:
    """The event with the output of an outermost graph, if no agent has said anything since, and its node has said nothing."""
    given: Event | None = None
    for event in reversed(events):
        if event.is_final_response() and event.text:
            return given if given is not None and _path(event) != _path(given) else None
        if given is None and event.output is not None and event.node_info is not None:
            given = event if any("/" not in path for path in event.node_info.output_for) else None
    return given


def as_text(output: JsonValue) -> str:
    """An output as text: data as JSON."""
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def _path(event: Event) -> str:
    return event.node_info.path if event.node_info is not None else ""
