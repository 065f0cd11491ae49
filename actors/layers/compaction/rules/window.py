"""Which events a summary stands for, by why one is due.

Rules of this file:

- By the number of turns: all that has come since the last summary, and `overlap_size` turns before it, as they were said.
- By tokens: all that has come since the last summary but the newest `event_retention_size` events. The last summary is summarised
  with them, so that one summary stands for everything before.
- No call is parted from its result, and no question from its answer: what is summarised ends before the first call that is open.
  A call that can have no answer any more, since its turn is over, counts as none, unless it is long-running.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from actors.layers.compaction.rules.shown import is_worth_it, standing
from actors.layers.compaction.rules.triggers import CompactionRule, Trigger
from actors.messages.content import Content
from actors.messages.event import USER, Event
from actors.rules.checks.credentials import REQUEST_CREDENTIAL, asks_credential
from actors.rules.prompt.compiler import is_of_conversation


class CompactionWindow(NamedTuple):
    """What is to be summarised.

    Attributes:
        events: oldest first; a summary that is summarised again is one with its content.
        start_seq, end_seq: the places in the log of all that the new summary stands for.
    """

    events: Sequence[Event]
    start_seq: int
    end_seq: int


def window(rule: CompactionRule, trigger: Trigger, log: Iterable[Event], turn: str) -> CompactionWindow | None:
    """The events that are to be summarised; None for none.

    Args:
        log: the events of the session, oldest first.
    """
    known = [event for event in log if is_of_conversation(event)]
    if trigger != Trigger.RUNNING_BY_TOKENS:
        known = [event for event in known if event.invocation_id != turn or event.actions.compaction is not None]
    found = _of_turns(known, rule.overlap_size) if trigger == Trigger.ENDED_BY_NUMBER else _but_newest(known, rule)
    if found is None or not is_worth_it(known, found.start_seq, found.end_seq):
        return None
    return found._replace(events=_without_answers(found.events, known))


def _without_answers(events: Sequence[Event], known: Sequence[Event]) -> Sequence[Event]:
    """The events without what the user has told tools and toolsets in the middle of calls, such as credentials."""
    asked = {call_id for event in known for call_id in event.actions.requested_inputs}
    asked |= {call.id or "" for event in known for call in event.function_calls() if call.name == REQUEST_CREDENTIAL}
    if not asked:
        return events
    return [_without(event, asked) if event.author == USER or asks_credential(event) else event for event in events]


def _without(event: Event, asked: Collection[str]) -> Event:
    if event.content is None:
        return event
    parts = [
        part
        for part in event.content.parts
        if (part.function_response is None or part.function_response.id not in asked)
        and (part.function_call is None or part.function_call.name != REQUEST_CREDENTIAL)
    ]
    return msgspec.structs.replace(event, content=Content(role=event.content.role, parts=parts))


def _of_turns(known: Sequence[Event], overlap_size: int) -> CompactionWindow | None:
    ends = [event.actions.compaction.end_seq for event in known if event.actions.compaction is not None]
    after_seq = ends[-1] if ends else 0
    said = [event for event in known if event.actions.compaction is None]
    newest = {event.invocation_id: event.seq for event in said}
    turns = list(newest)
    first = next((index for index, name in enumerate(turns) if newest[name] > after_seq), None)
    if first is None:
        return None
    begin = turns[max(0, first - overlap_size)]
    start = next(index for index, event in enumerate(said) if event.invocation_id == begin)
    return _window(_closed(said[start:], known))


def _but_newest(known: Sequence[Event], rule: CompactionRule) -> CompactionWindow | None:
    summaries = standing([each for event in known if (each := event.actions.compaction) is not None])
    latest = summaries[-1] if summaries else None
    after_seq = latest.end_seq if latest is not None else 0
    said = [event for event in known if event.actions.compaction is None and event.seq > after_seq]
    if rule.event_retention_size:
        said = said[: _split(said, len(said) - rule.event_retention_size)]
    found = _window(_closed(said, known))
    if found is None or latest is None:
        return found
    seed = Event(author="model", seq=latest.start_seq, timestamp=latest.start_timestamp, content=latest.compacted_content)
    return CompactionWindow([seed, *found.events], latest.start_seq, found.end_seq)


def _window(events: Sequence[Event]) -> CompactionWindow | None:
    return CompactionWindow(events, events[0].seq, events[-1].seq) if events else None


def _split(said: Sequence[Event], latest: int) -> int:
    """Where the events begin that are kept: at `latest` or before, so that they hold the calls of the results in them."""
    wanted: set[str] = set()
    for index in range(len(said) - 1, -1, -1):
        wanted |= _responses(said[index])
        wanted -= _calls(said[index])
        if not wanted and index <= latest:
            return index
    return 0


def _closed(said: Sequence[Event], known: Sequence[Event]) -> Sequence[Event]:
    """As many of the events, from the first on, as leave no call open and no question without an answer."""
    whole = _closed_length(said, frozenset())
    if whole == len(said) or (whole and said[whole - 1].invocation_id != said[whole].invocation_id):
        return said[:whole]
    dead = _never_answered(said, known)
    return said[: max(whole, _closed_length(said, dead) if dead else 0)]


def _closed_length(said: Sequence[Event], dead: Collection[str]) -> int:
    still_open: set[str] = set()
    length = 0
    for index, event in enumerate(said):
        still_open -= _responses(event)
        still_open |= (_calls(event) | _questions(event)).difference(dead)
        if not still_open:
            length = index + 1
    return length


def _never_answered(said: Sequence[Event], known: Sequence[Event]) -> frozenset[str]:
    """The calls among the events that have no answer and can have none: they belong to turns before the newest one."""
    newest = next((event.invocation_id for event in reversed(known) if event.actions.compaction is None), "")
    waiting = {call_id for event in known for call_id in event.long_running_tool_ids}
    answered = {call_id for event in known for call_id in _responses(event) - _questions(event)}
    return frozenset(call_id for event in said if event.invocation_id != newest for call_id in _calls(event) - waiting - answered)


def _calls(event: Event) -> set[str]:
    return {call.id for call in event.function_calls() if call.id}


def _responses(event: Event) -> set[str]:
    return {response.id for response in event.function_responses() if response.id}


def _questions(event: Event) -> set[str]:
    return {*event.actions.requested_tool_confirmations, *event.actions.requested_inputs}
