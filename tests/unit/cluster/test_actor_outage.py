"""How long an actor that is away is waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.transport.link import LIVED_S, away_since_s

tries = st.lists(st.tuples(st.floats(0, 3 * LIVED_S), st.floats(0, 1)), min_size=1)
"""How long each try lasted, and the pause before it."""


def test_an_absence_begins_when_the_first_try_has_failed() -> None:
    assert away_since_s(None, sent_s=0, now_s=100) == 100


def test_it_goes_on_while_tries_fail_soon() -> None:
    assert away_since_s(100, sent_s=110, now_s=110 + LIVED_S) == 100


def test_a_try_that_lay_with_the_actor_begins_another_one() -> None:
    assert away_since_s(100, sent_s=110, now_s=140) == 140


@given(tries)
def test_an_absence_never_holds_a_try_that_a_living_actor_had(tries: list[tuple[float, float]]) -> None:
    now_s, since_s = 0.0, None
    for lasted_s, paused_s in tries:
        sent_s = now_s + paused_s
        now_s = sent_s + lasted_s
        since_s = away_since_s(since_s, sent_s=sent_s, now_s=now_s)
        assert since_s <= now_s
        if now_s - sent_s > LIVED_S:
            assert since_s == now_s
