"""Each turn runs by the version that it began with, and none is lost, while trees are given and actors and programs are lost."""

from __future__ import annotations

import pytest

from tests.simulation.updates.edition import edition
from tests.simulation.updates.play import play

SEEDS = 120


@pytest.mark.full
def test_editions_have_updates_rollbacks_shares_pauses_losses_and_conflicts() -> None:
    seeds = range(0, SEEDS, 8)
    left = {seed: play(edition(seed), seed) for seed in seeds}
    records = [record for each in left.values() for _, _, record in each.records]
    assert len(records) > 30
    assert any(record.share is not None for record in records)
    assert any(edit.deed == "rollback" for seed in seeds for edit in edition(seed).edits)
    assert any("UpdateConflictError" in each.errors for each in left.values())
    assert any(ask.responses and ask.ended == "Finished" for each in left.values() for ask in each.history.asks)
    assert any(edition(seed).plan.faults for seed in seeds)
