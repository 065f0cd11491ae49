"""Nodes come, drain and end under two programs: nothing is lost or fails, and no agent in use is moved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.faults import CALM
from tests.simulation.nodes.play import play
from tests.simulation.nodes.weather import NOTICE_S, Asked, Change, Weather
from tests.support.tries import IS_FULL


def one_turn(change: Change | None, *, standby: bool) -> Weather:
    """A turn that asks an expert, on two nodes."""
    turn = Asked(turn="t0", at_s=1.0, takes_s=0.1, has_expert=True)
    return Weather(
        nodes=[2, 2], changes=[change] if change is not None else [], turns=[turn], network=CALM, hosts=2, standby=standby
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("standby", [False, True])
@pytest.mark.parametrize("whose", ["session", "runner", "agents"])
@pytest.mark.parametrize("what", ["drains", "ends"])
def test_a_node_drains_or_ends_at_every_message_of_a_turn(what: Any, whose: Any, *, standby: bool) -> None:
    messages = play(one_turn(None, standby=standby), 0).messages
    assert messages > 20
    failed = {}
    # All of them in the full set.
    for number in range(1, messages + 1, 1 if IS_FULL else 5):
        given = one_turn(Change(what=what, at_message=number, whose=whose, notice_s=NOTICE_S), standby=standby)
        if found := play(given, number).problems:
            failed[number] = found
    assert failed == {}
