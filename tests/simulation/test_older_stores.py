"""The simulated store goes back in time at any moment of turns: logs have no holes, and no loss is silent."""

from __future__ import annotations

from functools import partial

import pytest

from tests.simulation.older_stores import play_act
from tests.simulation.scenarios import Node, Step
from tests.simulation.scenes import play_scene

ROOT = Node(kind="llm", name="quick", steps=(Step(does="work", takes_s=0.3), Step(does="work", takes_s=0.3)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_store_that_goes_back_leaves_no_hole_and_tells_what_is_gone(first: int) -> None:
    for seed in range(first, first + 10):
        played = play_scene(ROOT, partial(play_act, seed=seed))
        assert played.log == list(range(1, len(played.log) + 1)), seed
        assert (played.lost > 0) is ("EventsLostError" in played.outcomes), (seed, played)
        assert set(played.outcomes) <= {"Finished", "EventsLostError"}, (seed, played)
        assert played.outcomes[-1] == "Finished", (seed, played)
