"""A program whose turns fill the line of a Runner asks for no further one, and for one more when a turn of its has begun."""

from __future__ import annotations

import random

import pytest

from actors.messages.config import Limits
from actors.messages.session import SessionKey, TurnKey
from actors.rules.queues import MIN_RETRY_S, Backlog
from runtime.driver.turns.refused_lines import PASSED_S, PROBE_S, AskedTurns


def asked(*runners: int) -> AskedTurns:
    """Turns of these Runners, asked for one second after the other."""
    turns = AskedTurns()
    for number, runner in enumerate(runners):
        turns.add(number, runner, float(number))
    return turns


def test_turns_that_have_not_begun_fill_the_line_of_their_runner() -> None:
    turns = asked(0, 0, 1)
    assert turns.refusal(0, 2, 9.0) is None, "the Runner is to tell of it"
    told = turns.refusal(0, 2, 9.2)
    assert told is not None
    assert told.args == ("this deployment", "2 turns", "max_waiting_turns", 9.2)
    assert turns.refusal(1, 2, 9.2) is None
    turns.discard(0)
    assert turns.refusal(0, 2, 9.2) is None
    turns.discard("one that was joined")
    assert len(turns) == 2


def test_now_and_then_one_is_asked_for_although_the_line_is_full() -> None:
    turns = asked(0, 0, 1, 1)
    passed = [step / 100 for step in range(201) if turns.refusal(0, 2, step / 100) is None]
    assert passed == pytest.approx([PROBE_S * number for number in range(5)])
    assert turns.refusal(1, 2, 2.0) is None, "that of each Runner"
    unread = [step / 100 for step in range(201) if turns.refusal_of_any(0, 2, 2, step / 100) is None]
    assert unread == pytest.approx(passed)
    # The one that was let through is about to ask.
    assert turns.refusal_of_any(0, 2, 2, 2.0 + PASSED_S / 2, again=True) is None
    assert turns.refusal_of_any(0, 2, 2, 2.0 + PASSED_S, again=True) is not None


def test_what_a_server_has_yet_to_read_counts_for_all_runners_together() -> None:
    turns = asked(0, 0, 0)
    assert turns.refusal_of_any(1, 2, 2, 1.0) is None, "one is let through"
    assert turns.refusal_of_any(0, 2, 2, 1.1) is None
    assert turns.refusal_of_any(1, 2, 2, 1.1) is not None
    assert turns.refusal_of_any(1, 3, 2, 1.1) is None
    nothing = AskedTurns()
    assert nothing.refusal_of_any(2, 1, 2, 1.0) is None
    told = nothing.refusal_of_any(2, 1, 2, 1.0)
    assert told is not None
    assert told.retry_after_s == MIN_RETRY_S


@pytest.mark.parametrize("seed", range(20))
def test_no_turn_is_refused_here_that_the_runner_would_take_if_it_had_told_what_has_begun(seed: int) -> None:
    """Requests, begins and their replies take their time; the Runner refuses only what is asked for so that it tells of it."""
    chance = random.Random(seed)
    most = chance.randint(1, 8)
    turns, backlog = AskedTurns(), Backlog(Limits(max_waiting_turns=most))
    sent: list[TurnKey] = []
    waiting: list[TurnKey] = []
    begun: list[TurnKey] = []
    refused = 0
    for step in range(400):
        now_s = step / 100
        turn = (SessionKey("app", "u", "s"), f"e-{step}")
        asked_for = len(turns)
        if turns.refusal(0, most, now_s) is not None:
            refused += 1
            assert asked_for == most
        elif asked_for < most:
            turns.add(turn, 0, now_s)
            sent.append(turn)
        while sent and chance.random() < 0.6:
            arrived = sent.pop(0)
            assert backlog.refusal(arrived, 1, now_s) is None
            backlog.add(arrived, 1, now_s)
            waiting.append(arrived)
        if waiting and chance.random() < 0.5:
            begun.append(waiting.pop(0))
            backlog.remove(begun[-1])
        while begun and chance.random() < 0.6:
            turns.discard(begun.pop(0))
    assert refused > 50
