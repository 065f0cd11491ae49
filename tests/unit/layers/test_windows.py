"""When a conversation is summarised, and which events a summary stands for, sentence by sentence (semantics.md 5.8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Content, Event, EventActions, EventCompaction, Usage
from actors.layers.compaction.rules import CompactionLedger, CompactionRule, Trigger, shown, standing, window
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import call, event, resp, said

TURNS = CompactionRule(compaction_interval=2, overlap_size=1)
TOKENS = CompactionRule(token_threshold=100, event_retention_size=2)
LONG = "as long as a summary is not, " * 3


def numbered(*events: Event) -> list[Event]:
    return [msgspec.structs.replace(each, seq=index) for index, each in enumerate(events, start=1)]


def turn(number: int, *more: Event) -> list[Event]:
    name = f"e-{number}"
    return [event("user", said(f"q{number} {LONG}"), turn=name), *more, event("me", said(f"a{number} {LONG}"), turn=name)]


def summary(start: int, end: int, text: str = "S", name: str = "e-9") -> Event:
    compaction = EventCompaction(start_seq=start, end_seq=end, compacted_content=Content.of_text(text, role="model"))
    return Event(author="me", invocation_id=name, actions=EventActions(compaction=compaction))


def range_of(rule: CompactionRule, trigger: Trigger, log: Sequence[Event], running: str = "e-9") -> tuple[int, int] | None:
    found = window(rule, trigger, log, running)
    return (found.start_seq, found.end_seq) if found is not None else None


def triggers(rule: CompactionRule, log: Iterable[Event], running: str = "e-9", estimate: int = 0) -> list[Trigger]:
    ledger = CompactionLedger()
    for each in log:
        ledger.add(each)
    return list(ledger.triggers(rule, running, "me", lambda: estimate))


def by_number(log: Sequence[Event], running: str = "e-9") -> tuple[int, int] | None:
    return range_of(TURNS, Trigger.ENDED_BY_NUMBER, log, running)


def by_tokens(log: Sequence[Event], running: str = "e-9") -> tuple[int, int] | None:
    return range_of(TOKENS, Trigger.RUNNING_BY_TOKENS, log, running)


def test_turns_count_since_the_last_summary_and_the_turn_that_runs_does_not() -> None:
    log = numbered(*turn(1), *turn(2))
    assert triggers(TURNS, log[:2]) == []
    assert triggers(TURNS, log) == [Trigger.ENDED_BY_NUMBER]
    assert triggers(TURNS, log, running="e-2") == []
    after = numbered(*turn(1), *turn(2), *turn(3)[:1], summary(1, 4, name="e-3"), *turn(3)[1:])
    assert triggers(TURNS, after) == []
    assert triggers(TURNS, [*after, *numbered(*after, *turn(4))[7:]]) == [Trigger.ENDED_BY_NUMBER]


def test_what_is_summarised_by_number_begins_as_many_turns_before() -> None:
    assert by_number(numbered(*turn(1), *turn(2))) == (1, 4)
    log = numbered(*turn(1), *turn(2), *turn(3)[:1], summary(1, 4, name="e-3"), *turn(3)[1:], *turn(4))
    assert by_number(log) == (3, 9)


def used(number: int, tokens: int, author: str = "me") -> Event:
    return event(author, said(LONG), turn=f"e-{number}", usage=Usage(prompt_token_count=tokens))


@pytest.mark.parametrize(
    ("log", "running", "expected"),
    [
        ([used(1, 100), used(1, 100), used(1, 100)], "e-2", [Trigger.ENDED_BY_TOKENS, Trigger.RUNNING_BY_TOKENS]),
        ([used(1, 100), used(1, 100), used(1, 99)], "e-2", []),
        ([used(1, 100), used(1, 100)], "e-2", []),
        ([used(1, 99), used(1, 99), used(2, 100)], "e-2", [Trigger.RUNNING_BY_TOKENS]),
        ([used(1, 99), used(1, 99), used(1, 100, "other")], "e-2", [Trigger.ENDED_BY_TOKENS]),
    ],
)
def test_by_tokens_the_newest_prompt_counts(log: list[Event], running: str, expected: list[Trigger]) -> None:
    assert triggers(TOKENS, numbered(*log), running) == expected


def test_tokens_from_before_the_last_summary_say_nothing() -> None:
    log = numbered(used(1, 100), used(1, 100), used(2, 100), used(2, 100), summary(1, 1, name="e-3"))
    assert triggers(TOKENS, log, estimate=99) == []
    assert triggers(TOKENS, log, estimate=100) == [Trigger.ENDED_BY_TOKENS, Trigger.RUNNING_BY_TOKENS]


def test_by_tokens_the_newest_events_are_kept_and_the_last_summary_is_summarised_again() -> None:
    log = numbered(*turn(1), *turn(2), *turn(3))
    assert by_tokens(log) == (1, 4)
    found = window(TOKENS, Trigger.RUNNING_BY_TOKENS, numbered(*turn(1), *turn(2), summary(1, 2), *turn(3), *turn(4)), "e-9")
    assert found is not None
    assert (found.start_seq, found.end_seq) == (1, 7)
    assert [each.content.text[:2] for each in found.events if each.content] == ["S", "q2", "a2", "q3", "a3"]


def test_kept_events_hold_the_calls_of_all_their_answers() -> None:
    calls = [event("me", call("c"), turn="e-2"), event("me", resp("c", LONG), turn="e-2")]
    assert by_tokens(numbered(*turn(1), event("user", said(LONG), turn="e-2"), *calls, event("me", said("a"), turn="e-2"))) == (
        1,
        3,
    )


def test_what_is_summarised_ends_before_a_call_that_is_open() -> None:
    opened = event("me", call("c"), turn="e-2")
    log = numbered(*turn(1), event("user", said(LONG), turn="e-2"), opened, *turn(3))
    waiting = [msgspec.structs.replace(each, long_running_tool_ids=("c",)) if each.seq == 4 else each for each in log]
    assert by_number(waiting) == (1, 3)
    # Without a tool that may answer later there will be no answer.
    assert by_number(log) == (1, 6)


def test_nothing_is_summarised_that_would_save_less_than_the_last_summary_has() -> None:
    log = [*turn(1), *turn(2), summary(1, 4, "S" * 5_000), *turn(3), *turn(4)]
    assert by_number(numbered(*log)) is None
    assert by_number(numbered(*turn(1), *turn(2), summary(1, 4), *turn(3), *turn(4))) == (3, 9)


def test_what_tools_that_are_agents_say_is_no_part_of_it() -> None:
    asked = event("helper", said(LONG), turn="e-1", branch="@helper:c")
    assert by_number(numbered(*turn(1, asked), *turn(2), asked)) == (1, 5)


RANGES = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=6)


@given(ranges=RANGES)
def test_a_summary_stands_unless_another_one_covers_it(ranges: list[tuple[int, int]]) -> None:
    given = [summary(start, end, str(index)).actions.compaction for index, (start, end) in enumerate(ranges)]
    kept = [each for each in given if each is not None]

    def is_covered(index: int) -> bool:
        start, end = ranges[index]
        others = [(other, place) for place, other in enumerate(ranges) if place != index]
        return any(o[0] <= start and end <= o[1] and (o != (start, end) or place > index) for o, place in others)

    assert standing(kept) == [each for index, each in enumerate(kept) if not is_covered(index)]


@given(ranges=RANGES, places=st.lists(st.integers(0, 14), min_size=6, max_size=6), newcomer=st.booleans())
def test_views_that_are_brought_up_to_date_show_what_the_whole_log_shows(
    ranges: list[tuple[int, int]], places: list[int], newcomer: bool
) -> None:
    log: list[Any] = [event("user", said(f"q{number}"), turn=f"e-{number}") for number in range(14)]
    for place, (start, end) in sorted(zip(places, ranges, strict=False), reverse=True):
        log.insert(max(place, end), summary(start, min(end, max(place, end)), f"S{start}-{end}"))
    events = [each for each in numbered(*log) if each.actions.compaction is None or each.actions.compaction.end_seq < each.seq]
    view: History | None = History("me")
    for each in events:
        assert view is not None
        view.add(each)
        if newcomer:
            view = view.for_newcomer("me")
    assert view is not None
    assert [content.text for content in view.contents()] == [each.content.text for each in shown(events)]


@pytest.mark.parametrize("agent", ["me", "other"])
@pytest.mark.parametrize("is_credential", [False, True])
def test_no_summary_has_what_a_tool_or_a_toolset_was_told(agent: str, is_credential: bool) -> None:
    name = "adk_request_credential" if is_credential else "f"
    asks = () if is_credential else ("c1",)
    asked = event(agent, call("c1", name), turn="e-1", asks=asks, lro=("c1",))
    told = event("user", resp("c1", "the secret", name), said("words"), turn="e-1")
    for rule, trigger in ((TURNS, Trigger.ENDED_BY_NUMBER), (TOKENS, Trigger.RUNNING_BY_TOKENS)):
        found = window(rule, trigger, numbered(*turn(1, asked, told), *turn(2)), "e-9")
        assert found is not None
        assert any("words" in each.text for each in found.events)
        assert "the secret" not in repr(found.events)
