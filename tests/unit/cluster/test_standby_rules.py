"""When the standby of an actor takes its place."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.rules.standby import Other, StandbyStep, next_step, next_term


def test_who_stands_by_for_one_that_leads_waits_for_its_loss_and_then_takes_its_place() -> None:
    for is_first in (True, False):
        assert next_step(Other.LEADS, is_first=is_first, has_seen_leader=False) is StandbyStep.WATCH
        assert next_step(Other.LOST, is_first=is_first, has_seen_leader=True) is StandbyStep.LEAD


@pytest.mark.parametrize("has_seen_leader", [True, False])
def test_where_both_were_started_again_only_the_first_leads(has_seen_leader: bool) -> None:
    steps = [next_step(Other.STANDS_BY, is_first=first, has_seen_leader=has_seen_leader) for first in (True, False)]
    assert steps == [StandbyStep.LEAD, StandbyStep.ASK_AGAIN]


def test_one_that_was_seen_leading_and_is_silent_leads_on() -> None:
    for is_first in (True, False):
        assert next_step(Other.SILENT, is_first=is_first, has_seen_leader=True) is StandbyStep.ASK_AGAIN
        assert next_step(Other.SILENT, is_first=is_first, has_seen_leader=False) is StandbyStep.LEAD


def test_a_second_process_does_not_lead_where_there_was_never_a_first() -> None:
    assert next_step(Other.ABSENT, is_first=False, has_seen_leader=False) is StandbyStep.ASK_AGAIN
    assert next_step(Other.ABSENT, is_first=True, has_seen_leader=False) is StandbyStep.LEAD


def test_nobody_leads_beside_one_that_is_known_to_lead() -> None:
    steps = {next_step(Other.LEADS, is_first=first, has_seen_leader=seen) for first, seen in product((True, False), repeat=2)}
    assert steps == {StandbyStep.WATCH}


def test_a_term_is_later_than_the_one_before_whatever_the_clock_says() -> None:
    assert next_term(0, 5_000, is_first=True) == 5_000
    assert next_term(5_000, 7_000, is_first=False) == 7_001
    assert next_term(5_000, 4_000, is_first=False) == 5_001
    assert next_term(5_001, 4_000, is_first=True) == 5_002


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**15))
def test_two_processes_never_have_the_same_term(seen: int, first_ms: int, second_ms: int) -> None:
    assert next_term(seen, first_ms, is_first=True) != next_term(seen, second_ms, is_first=False)


def test_the_second_does_not_lead_beside_a_first_that_was_told_to_and_the_first_does() -> None:
    lost = [next_step(Other.LOST, is_first=first, has_seen_leader=True, has_given_way=True) for first in (True, False)]
    assert lost == [StandbyStep.LEAD, StandbyStep.ASK_AGAIN]
