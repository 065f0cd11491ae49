"""The events that are summarised, as text for the model that does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from actors.messages.event import Event

MAX_CHARACTERS = 2_000
"""The text has so much of a call's arguments, and of its result: they may be larger than all that was said."""


def transcript(events: Iterable[Event]) -> str:
    """A line for each thing that was said, called or returned, with its author."""
    return "\n".join(line for event in events for line in _lines(event))


def _lines(event: Event) -> Iterator[str]:
    for part in event.content.parts if event.content is not None else ():
        if part.text:
            yield f"{event.author} (thought): {part.text}" if part.thought else f"{event.author}: {part.text}"
        if (call := part.function_call) is not None:
            yield f"{event.author} called tool: {call.name}({_cut(call.args)})"
        if (response := part.function_response) is not None:
            yield f"Tool response from {response.name}: {_cut(response.response)}"


def _cut(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    left_out = len(text) - MAX_CHARACTERS
    return text if left_out <= 0 else f"{text[:MAX_CHARACTERS]}… ({left_out} more characters)"
