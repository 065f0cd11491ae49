"""The life of a turn: the table, the page that shows it, and what holds in whatever order things happen."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.routing import turn_life
from actors.rules.routing.turn_life import TABLE, Happening, Phase, TurnLife

PHASES: tuple[Phase, ...] = get_args(Phase)
HAPPENINGS: tuple[Happening, ...] = get_args(Happening)


def shown() -> dict[tuple[str, str], str]:
    """The table at the head of the file: phases down, happenings along."""
    lines = [line.strip("| ") for line in (turn_life.__doc__ or "").splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    happenings = [cell.split(":")[0] for cell in head[1:]]
    cells = {(row[0], happening): cell for row in rows for happening, cell in zip(happenings, row[1:], strict=False)}
    return {place: cell for place, cell in cells.items() if cell}


def test_the_table_that_people_read_is_the_one_that_decides() -> None:
    decided: dict[tuple[str, str], str] = {}
    for phase in PHASES:
        for happening in HAPPENINGS:
            life, interrupts = TurnLife(phase).after(happening)
            if life.phase != phase:
                decided[phase, happening] = life.phase + (", and the task is interrupted" if interrupts else "")
            else:
                assert not interrupts
    assert shown() == decided
    assert set(TABLE) == set(decided)


LIVES = st.lists(st.sampled_from(HAPPENINGS), max_size=12)


@given(LIVES)
def test_a_task_is_interrupted_once_at_most_and_only_between_its_first_step_and_its_decision(happenings: list[Happening]) -> None:
    life, interruptions = TurnLife(), 0
    for number, happening in enumerate(happenings):
        life, interrupts = life.after(happening)
        interruptions += interrupts
        if interrupts:
            assert "begun" in happenings[:number]
            assert not life.phase.startswith("ending")
    assert interruptions <= 1


@given(LIVES)
def test_one_that_was_replaced_never_speaks_for_itself_again(happenings: list[Happening]) -> None:
    life, _ = TurnLife().after("replaced")
    for happening in happenings:
        life, _ = life.after(happening)
        assert not life.was_cancelled
        assert life.phase in ("replaced", "ending, replaced")


@pytest.mark.parametrize("stop", ["cancelled", "replaced"])
def test_one_that_is_stopped_before_its_first_step_begins_nothing_and_is_not_interrupted(stop: Happening) -> None:
    life, interrupts = TurnLife().after(stop)
    assert not interrupts
    life, _ = life.after("begun")
    assert life.is_stopped


def test_a_cancel_that_comes_when_the_end_is_decided_is_no_cancel() -> None:
    life = TurnLife("ending")
    assert life.after("cancelled") == (life, False)
    assert not life.was_cancelled
    assert TurnLife("ending, cancelled").was_cancelled
