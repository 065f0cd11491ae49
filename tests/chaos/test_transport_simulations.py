"""Many more simulations of the transport's protocol than the ordinary test run plays: see `tests/simulation/transport`."""

from __future__ import annotations

import pytest

from tests.simulation.transport.world import problems

SEEDS = 100_000
PART = 5_000


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_has_to_hold_holds_whatever_goes_wrong(first: int) -> None:
    assert {seed: found for seed in range(first, first + PART) if (found := problems(seed))} == {}
