"""Many more simulations than the ordinary test run plays: see `tests/simulation`."""

from __future__ import annotations

import pytest

from tests.simulation.simulate import run_seed

SEEDS = 20_000
PART = 500


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_what_has_to_hold_holds_whatever_goes_wrong(first: int) -> None:
    failed = {seed: problems[0] for seed in range(first, first + PART) if (problems := run_seed(seed))}
    assert failed == {}, f"tell and shrink one with: python -m tests.simulation {next(iter(failed))}"
