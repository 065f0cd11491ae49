"""What requests show of a log with summaries, and how large that is: each stands at the end of what it covers, in its place.

Rules of this file:

- A summary that covers all that another one covers takes its place, whichever came first; of two that cover the same the later
  one stands. Two that overlap stand both.
- Only the conversation is covered. What agents said that were asked as tools, or worked for calls, stands in none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from actors.messages.content import Content
from actors.messages.event import Event, EventCompaction
from actors.rules.prompt.compiler import is_of_conversation

CHARACTERS_A_TOKEN = 4
"""A rough figure, for models that do not tell of tokens."""


class ShownEvent(NamedTuple):
    """What one event, or a summary, contributes to requests: where it stands, and its content."""

    seq: int
    content: Content


def standing(compactions: Sequence[EventCompaction]) -> list[EventCompaction]:
    """Those, of summaries in the order of the log, that no other one covers."""
    order = sorted(range(len(compactions)), key=lambda index: (compactions[index].start_seq, -compactions[index].end_seq, -index))
    kept: set[int] = set()
    end_seq = -1
    for index in order:
        # None that comes later in this order begins earlier, so it is covered if it ends within one before it.
        if compactions[index].end_seq > end_seq:
            kept.add(index)
            end_seq = compactions[index].end_seq
    return [each for index, each in enumerate(compactions) if index in kept]


def shown(events: Iterable[Event], *more: EventCompaction) -> list[ShownEvent]:
    """The contents that requests show of the events of a log, with summaries in place of what these cover.

    Args:
        events: oldest first.
        more: summaries that are not in the log yet.
    """
    events = [event for event in events if is_of_conversation(event)]
    summaries = standing([*(each for event in events if (each := event.actions.compaction) is not None), *more])
    # Standing summaries that begin later end later, so the last that begins before an event is the one that may cover it.
    by_start = sorted(summaries, key=lambda each: each.start_seq)
    starts = [each.start_seq for each in by_start]

    def is_covered(seq: int) -> bool:
        before = bisect_right(starts, seq)
        return before > 0 and seq <= by_start[before - 1].end_seq

    left = [
        ShownEvent(event.seq, event.content)
        for event in events
        if event.content is not None and event.actions.compaction is None and not is_covered(event.seq)
    ]
    left += [ShownEvent(each.end_seq, each.compacted_content) for each in summaries]
    return sorted(left, key=lambda each: each.seq)


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
