"""How large contents are: to tell whether a summary would make requests smaller, and about how many tokens they have."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from actors.layers.compaction.rules.shown import ShownEvent, shown, standing
from actors.messages.content import Content
from actors.messages.event import Event, EventCompaction

CHARACTERS_A_TOKEN = 4
"""A rough figure, for models that do not tell of tokens."""


def estimated_tokens(contents: Iterable[Content]) -> int:
    """About how many tokens contents have: a quarter of the characters of their texts, calls and results."""
    characters = 0
    for content in contents:
        for part in content.parts:
            characters += len(part.text or "")
            if (call := part.function_call) is not None:
                characters += len(call.name) + _json_length(call.args)
            if (response := part.function_response) is not None:
                characters += len(response.name) + _json_length(response.response)
    return characters // CHARACTERS_A_TOKEN


def is_worth_it(events: Iterable[Event], start_seq: int, end_seq: int) -> bool:
    """True when requests would get smaller by more than the last summary has: the next one is likely to be as long.

    Args:
        events: of the log.
        start_seq, end_seq: what would be summarised.
    """
    events = list(events)
    known = [each for event in events if (each := event.actions.compaction) is not None]
    latest = standing(known)[-1:]
    nothing = EventCompaction(start_seq=start_seq, end_seq=end_seq, compacted_content=Content(role="model", parts=[]))
    saved = _size(shown(events)) - _size(shown(events, nothing))
    return saved > sum(_length(each.compacted_content) for each in latest)


def _size(given: Iterable[ShownEvent]) -> int:
    return sum(_length(each.content) for each in given)


def _length(content: Content) -> int:
    return len(msgspec.json.encode(content).decode())


def _json_length(value: object) -> int:
    return len(msgspec.json.encode(value).decode()) if value else 0
