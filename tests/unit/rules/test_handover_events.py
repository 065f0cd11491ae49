"""Which events travel along, and whether they suffice for who gets them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.protocol.base import StoredEvent
from actors.rules.handover_events import MAX_BYTES, MAX_EVENTS, HandoverEvents, events_missed_by_agents, following

speakers = st.lists(st.sampled_from(["user", "a", "b", "c"]), max_size=2 * MAX_EVENTS)
"""Who has said each event of a log."""


def log_of(count: int, size: int = 10) -> list[StoredEvent]:
    return [StoredEvent(seq, b"x" * size) for seq in range(1, count + 1)]


def last_spoken(said: Sequence[str]) -> list[int]:
    """The positions of the agents' last events, the newest first."""
    last = {author: seq for seq, author in enumerate(said, start=1) if author != "user"}
    return sorted(last.values(), reverse=True)


def travelling(said: Sequence[str], size: int = 10) -> list[StoredEvent]:
    return events_missed_by_agents(reversed(log_of(len(said), size)), last_spoken(said))


@given(speakers, st.integers(1, MAX_BYTES // 4))
def test_what_travels_is_the_end_of_the_log_and_all_that_an_agent_has_missed_or_nothing_of_it(said: list[str], size: int) -> None:
    events = travelling(said, size)
    assert events == log_of(len(said), size)[len(said) - len(events) :]
    assert len(events) <= MAX_EVENTS
    assert sum(len(stored.raw) for stored in events) <= MAX_BYTES
    missed = [len(said) - seq for seq in last_spoken(said)]
    fitting = [count for count in missed if count <= MAX_EVENTS and count * size <= MAX_BYTES]
    assert len(events) == max(fitting, default=0)


@pytest.mark.parametrize(("said", "seqs"), [([], []), (["user", "a"], []), (["user", "a", "user", "b"], [3, 4])])
def test_an_agent_that_has_spoken_alone_has_missed_nothing(said: list[str], seqs: list[int]) -> None:
    assert [stored.seq for stored in travelling(said)] == seqs


@given(st.integers(0, 6), st.integers(1, 6), st.integers(0, 12))
def test_who_knows_what_is_before_them_takes_in_those_that_it_lacks(before: int, count: int, known: int) -> None:
    events = log_of(before + count)[before:]
    found = following(events, known)
    if before <= known <= before + count:
        assert found == log_of(before + count)[known:]
    else:
        assert found is None


def test_events_with_a_gap_between_them_suffice_only_behind_it() -> None:
    first, _, third, fourth = log_of(4)
    assert following([first, third, fourth], 0) is None
    assert following([first, third, fourth], 1) is None
    assert following([first, third, fourth], 2) == [third, fourth]


@given(st.lists(st.tuples(st.integers(0, MAX_BYTES // 2), st.booleans()), max_size=MAX_EVENTS + 2))
def test_a_run_sends_along_all_of_its_events_or_none(run: list[tuple[int, bool]]) -> None:
    along = HandoverEvents()
    stored = [StoredEvent(seq, b"x" * size) for seq, (size, _) in enumerate(run, start=1)]
    for event, (_, changes_state) in zip(stored, run, strict=True):
        along.add(event, changes_state=changes_state)
    may = len(run) <= MAX_EVENTS and sum(size for size, _ in run) <= MAX_BYTES and not any(changes for _, changes in run)
    assert list(along.events) == (stored if may else [])
