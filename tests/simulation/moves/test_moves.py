"""Users are moved by two programs and more at once, while they talk: everybody is whole in one store, whatever is lost."""

from __future__ import annotations

import pytest

from tests.simulation.moves.plan import plan
from tests.simulation.moves.play import play

SEEDS = 120


@pytest.mark.full
def test_programs_and_session_actors_are_lost_stopped_and_replaced_in_the_midst_of_moves() -> None:
    left = [play(plan(seed), seed) for seed in range(20)]
    assert sum(each.moved for each in left) > 30
    assert sum(each.talked for each in left) > 20
    fired = {what for each in left for what in each.fired}
    assert fired >= {"kill sender", "freeze sender", "kill receiver", "kill another", "replace", "store unsure", "a part is lost"}


@pytest.mark.full
def test_a_seed_does_the_same_steps_again() -> None:
    for seed in range(3):
        assert play(plan(seed), seed).trace.digest() == play(plan(seed), seed).trace.digest()
