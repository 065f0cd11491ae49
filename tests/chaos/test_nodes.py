"""Many more clusters whose nodes come and go than the ordinary test run plays: see `tests/simulation/nodes`."""

from __future__ import annotations

import pytest

from tests.simulation.nodes.play import check
from tests.simulation.seeds import failing

SEEDS = 3_000
PART = 300


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_nothing_is_lost_while_nodes_come_and_go(first: int) -> None:
    assert failing(check, range(first, first + PART)) == {}
