"""How much of a conversation is summarised, when, and what requests show of a log with summaries.

Rules of when it is due:

- There are two conditions, either of which may be left out. By turns: so many have ended since the last summary. By tokens: the
  newest prompt that a model was sent had so many or more, and there are more events than are to be kept.
- Turns that have ended come first, by tokens, else by their number, as if it were done when the last of them ended. Then comes
  the turn that runs, by the tokens of what the agent itself was sent last.
- Tokens that were counted before the last summary say nothing of the prompts after it. Where none are known, four characters of
  what the agent is shown count as one.

Rules of which events a summary stands for:

- By the number of turns: all that has come since the last summary, and `overlap_size` turns before it, as they were said.
- By tokens: all that has come since the last summary but the newest `event_retention_size` events. The last summary is summarised
  with them, so that one summary stands for everything before.
- No call is parted from its result, and no question from its answer: what is summarised ends before the first call that is open.
  A call that can have no answer any more, since its turn is over, counts as none, unless it is long-running.

Rules of what requests show: each summary stands at the end of what it covers, in its place.

- A summary that covers all that another one covers takes its place, whichever came first; of two that cover the same the later
  one stands. Two that overlap stand both.
- Only the conversation is covered. What agents said that were asked as tools, or worked for calls, stands in none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

import msgspec

from actors.messages.content import Content
from actors.messages.event import USER, Event, EventCompaction
from actors.rules.checks.questions import REQUEST_CREDENTIAL, asks_credential
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


class Trigger(StrEnum):
    """What is summarised, and why."""

    ENDED_BY_TOKENS = "ended turns, by tokens"
    ENDED_BY_NUMBER = "ended turns, by their number"
    RUNNING_BY_TOKENS = "all turns, by tokens"


class CompactionRule(NamedTuple):
    """When a conversation is summarised, and what is left out: see EventsCompactionConfig."""

    compaction_interval: int | None = None
    overlap_size: int = 0
    token_threshold: int | None = None
    event_retention_size: int = 0


class _Fact(NamedTuple):
    """What matters of one event: `tokens` is the size of the prompt that it answers, None where that is not known."""

    seq: int
    invocation_id: str
    author: str
    tokens: int | None


class CompactionLedger:
    """What a log says of turns and prompts since the last summary, taken in event by event."""

    def __init__(self) -> None:
        self._facts: list[_Fact] = []
        # By turn, in order: the place of its newest event.
        self._turns: dict[str, int] = {}
        # Tokens of events before this place say nothing.
        self._told_after_seq = 0

    def copy(self) -> Self:
        """Another one that goes on from here."""
        made = type(self)()
        made._facts, made._turns, made._told_after_seq = self._facts.copy(), self._turns.copy(), self._told_after_seq
        return made

    def add(self, event: Event) -> None:
        """Take in the next event of the log."""
        if not is_of_conversation(event):
            return
        compaction = event.actions.compaction
        if compaction is not None:
            end = compaction.end_seq
            self._facts = [fact for fact in self._facts if fact.seq > end]
            self._turns = {turn: seq for turn, seq in self._turns.items() if seq > end}
            self._told_after_seq = event.seq
            return
        tokens = event.usage.prompt_token_count if event.usage is not None else None
        self._facts.append(_Fact(event.seq, event.invocation_id, event.author, tokens))
        self._turns[event.invocation_id] = event.seq

    def triggers(self, rule: CompactionRule, turn: str, agent: str, estimate: Callable[[], int]) -> Iterator[Trigger]:
        """Why the conversation may be due, in the order in which that is looked at.

        Args:
            agent: whose model is about to be called.
            estimate: gives about how many tokens the agent would be shown; called only where the log does not say it.
        """
        if rule.token_threshold is not None:
            kept = sum(fact.invocation_id != turn for fact in self._facts)
            if kept > rule.event_retention_size:
                newest = self._newest(lambda fact: fact.invocation_id != turn)
                if (estimate() if newest is None else newest) >= rule.token_threshold:
                    yield Trigger.ENDED_BY_TOKENS
        if rule.compaction_interval is not None and len(self._turns.keys() - {turn}) >= rule.compaction_interval:
            yield Trigger.ENDED_BY_NUMBER
        if rule.token_threshold is not None and len(self._facts) > rule.event_retention_size:
            newest = self._newest(lambda fact: fact.author == agent)
            if (estimate() if newest is None else newest) >= rule.token_threshold:
                yield Trigger.RUNNING_BY_TOKENS

    def _newest(self, counts: Callable[[_Fact], bool]) -> int | None:
        for fact in reversed(self._facts):
            if fact.seq < self._told_after_seq:
                return None
            if fact.tokens is not None and counts(fact):
                return fact.tokens
        return None
