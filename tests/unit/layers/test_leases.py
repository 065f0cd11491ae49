"""Leases: of states that sessions share, as one actor and the other one believe of them, and of a deployment that drains."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import DrainingError
from actors.layers.draining import DrainLease
from actors.layers.sharing import LEASE_S, GivenLeases, HeldLeases
from tests.support.tries import tries

GIVER, HOLDER = 0, 1

delays = st.floats(0.0, 2 * LEASE_S)


class Asked(NamedTuple):
    """A request for a lease, in seconds.

    Attributes:
        pause_s: after the answer to the one before.
        there_s, back_s: how long the request and the answer take.
        known_s: how long the giver has known then that it is the writer of its place.
    """

    pause_s: float
    there_s: float
    back_s: float
    known_s: float


asked = st.lists(st.builds(Asked, delays, delays, delays, st.floats(0.0, LEASE_S)), max_size=8)


@settings(max_examples=tries(200))
@given(asked, st.floats(-1e6, 1e6), delays)
def test_while_one_holds_a_lease_the_other_one_knows_of_it(requests: list[Asked], ahead_s: float, at_s: float) -> None:
    given, held, now_s = GivenLeases(), HeldLeases([GIVER]), 1e7
    for each in requests:
        asked_s = now_s + each.pause_s
        given_s = asked_s + each.there_s
        for_s = given.give(HOLDER, verified_s=given_s + ahead_s - each.known_s, now_s=given_s + ahead_s)
        now_s = given_s + each.back_s
        held.note(GIVER, asked_s=asked_s, for_s=for_s, now_s=now_s)
        # A process that takes the giver's place waits for so long, and the giver was known to be the writer before that.
        assert asked_s + for_s <= given_s - each.known_s + LEASE_S + 1e-3
        for then_s in (now_s, now_s + at_s):
            # Clocks go on by the same pace, within what a sum of floating point numbers is off.
            if held.holds(then_s + 1e-3):
                assert HOLDER in given.held(then_s + ahead_s)


@settings(max_examples=tries(200))
@given(asked)
def test_what_was_read_before_a_lease_ran_out_is_of_another_era(requests: list[Asked]) -> None:
    held, now_s, until_s = HeldLeases([GIVER]), 0.0, 0.0
    for each in requests:
        era, asked_s = held.era, now_s + each.pause_s
        now_s = asked_s + each.there_s + each.back_s
        held.note(GIVER, asked_s=asked_s, for_s=LEASE_S - each.known_s, now_s=now_s)
        assert (held.era == era) is (now_s < until_s)
        until_s = max(until_s, asked_s + LEASE_S - each.known_s)
        assert held.holds(now_s) is (now_s < until_s)


def test_one_is_told_of_all_changes_only_with_leases_of_all_others() -> None:
    held = HeldLeases([1, 2])
    held.note(1, asked_s=10.0, for_s=1.0, now_s=10.0)
    assert not held.holds(10.0)
    held.note(2, asked_s=10.2, for_s=1.0, now_s=10.4)
    assert held.holds(10.9)
    assert not held.holds(11.0)


def test_an_answer_without_a_lease_shortens_none() -> None:
    held = HeldLeases([1])
    held.note(1, asked_s=10.0, for_s=1.0, now_s=10.0)
    held.note(1, asked_s=10.5, for_s=0.0, now_s=10.5)
    assert held.holds(10.9)


def test_a_lease_refuses_new_turns_until_it_is_over() -> None:
    lease = DrainLease()
    assert (lease.left_s(0.0), lease.refusal("desk", 0.0)) == (0.0, None)
    lease.renew(10.0, 5.0, 100.0)
    assert lease.left_s(104.0) == 6.0
    refusal = lease.refusal("desk", 109.9)
    assert isinstance(refusal, DrainingError)
    assert (
        str(refusal) == "app 'desk' is to be stopped and takes no new turns: ask again in 5.0 s, when its next deployment may run"
    )
    assert refusal.retry_after_s == 5.0
    assert lease.refusal("desk", 110.0) is None


def test_the_newest_word_counts() -> None:
    lease = DrainLease()
    lease.renew(10.0, 5.0, 0.0)
    lease.renew(2.0, 5.0, 1.0)
    assert lease.left_s(1.0) == 2.0
    lease.renew(0.0, 5.0, 1.5)
    assert lease.left_s(1.5) == 0.0


def test_what_was_asked_for_before_the_drain_is_not_new() -> None:
    lease = DrainLease()
    lease.renew(10.0, 5.0, 0.0)
    assert lease.refusal("desk", 1.0, 4.9) is None
    assert lease.refusal("desk", 1.0, 5.1) is not None
    assert lease.refusal("desk", 1.0, 0.0) is not None
