"""Schedules make their turns, each due time one, while actors are lost, stopped and cut off, and the store is away."""

from __future__ import annotations

from tests.simulation.schedules.play import play
from tests.simulation.schedules.timetable import timetable

SEEDS = 120


def test_timetables_have_turns_losses_pauses_and_deletions() -> None:
    left = [play(timetable(seed), seed) for seed in range(12)]
    assert sum(len(messages) for each in left for messages in each.messages.values()) > 100
    assert any(made.pauses for each in left for made in each.made)
    assert any(made.deleted_s for each in left for made in each.made)
