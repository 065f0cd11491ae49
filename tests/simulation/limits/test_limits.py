"""Limits of models hold while programs change them, and actors and agents are lost and stopped."""

from __future__ import annotations

import pytest

from tests.simulation.limits.play import play
from tests.simulation.limits.traffic import traffic

SEEDS = 120


@pytest.mark.full
def test_traffic_has_changes_losses_and_stops_of_the_actor_and_of_agents() -> None:
    seeds = range(0, SEEDS, 4)
    left = {seed: play(traffic(seed), seed) for seed in seeds}
    assert sum(len(each.world.lives) > 1 for each in left.values()) > 3
    stopped = {name.split("#")[0].split()[0] for each in left.values() for name, _, _ in each.world.frozen}
    assert stopped >= {"limiter", "agent"}
    assert any(died.startswith(("agent", "group")) for each in left.values() for died in each.world.died_s)
    changes = [change for each in left.values() for change, ask in each.changed if ask.ended == "done"]
    assert {change.fields is None for change in changes} == {True, False}
    assert "Finished" in {ask.ended for each in left.values() for _, ask in each.asked}
    assert any(made.failed for each in left.values() for made in each.made)
    assert any(traffic(seed).is_plain for seed in seeds)
