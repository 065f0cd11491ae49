"""A program that was refused asks for a turn again when there may be room, and only where its line was full.

Turns that it has asked for, and that have not begun, fill the line of a Runner, too.
"""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.errors import DrainingError, OverloadedError
from actors.messages.config import Limits
from actors.messages.session import SessionKey, TurnKey
from actors.rules.queues import MIN_RETRY_S, Backlog
from runtime.driver.turns import client as turn_client
from runtime.driver.turns.client import Refusals
from runtime.driver.turns.refused_lines import FORGET_S, PASSED_S, PROBE_S, AskedTurns, Line, RefusedLines, lines_of
from runtime.driver.turns.state import TurnState


def of(user: str, session: str = "s", runner: int = 0) -> tuple[Line, Line, Line]:
    return lines_of(runner, SessionKey("app", user, session))


def full(setting: str, retry_after_s: float = 3.0) -> OverloadedError:
    return OverloadedError("whose", "2 turns", setting, retry_after_s)


@pytest.mark.parametrize(
    ("setting", "refused", "free"),
    [
        ("max_waiting_session_turns", [of("a")], [of("a", "t"), of("b"), of("a", runner=1)]),
        ("max_waiting_user_turns", [of("a"), of("a", "t")], [of("b"), of("a", runner=1)]),
        ("max_waiting_turns", [of("a"), of("b", "t")], [of("a", runner=1)]),
        ("max_waiting_user_bytes", [], [of("a"), of("b")]),
    ],
)
def test_a_refusal_stands_for_its_line_only(
    setting: str, refused: list[tuple[Line, Line, Line]], free: list[tuple[Line, Line, Line]]
) -> None:
    lines = RefusedLines()
    lines.refuse(of("a"), full(setting), 10.0)
    for each in refused:
        told = lines.ask(each, 10.4)
        assert told is not None
        assert told.args == ("whose", "2 turns", setting, 2.6)
    assert [lines.ask(each, 10.4) for each in free] == [None] * len(free)


def test_a_deployment_that_drains_fills_no_line() -> None:
    lines = RefusedLines()
    lines.refuse(of("a"), DrainingError("app", 5.0), 0.0)
    assert lines.ask(of("a"), 0.0) is None
    assert not lines


def test_one_is_asked_for_in_place_of_each_that_leaves() -> None:
    lines = RefusedLines()
    lines.refuse(of("a"), full("max_waiting_user_turns"), 0.0)
    assert lines.ask(of("a"), 0.0) is not None
    lines.leave(of("a", "t"))
    lines.leave(of("b"))
    assert [lines.ask(of("a"), 0.1) is None for _ in range(2)] == [True, False]


def test_what_one_line_refuses_takes_no_room_of_another() -> None:
    lines = RefusedLines()
    lines.refuse(of("a"), full("max_waiting_turns"), 0.0)
    lines.refuse(of("a"), full("max_waiting_session_turns"), 0.0)
    lines.leave(of("b"))
    assert lines.ask(of("a"), 0.0) is not None
    assert lines.ask(of("b"), 0.0) is None
    # The Runner had no room in the session's line: what was meant for it is another one's.
    lines.leave(of("a"))
    assert lines.ask(of("a"), 0.0) is None
    lines.refuse(of("a"), full("max_waiting_session_turns"), 0.0)
    assert lines.ask(of("b"), 0.0) is None


def test_now_and_then_one_is_asked_for_although_none_has_left_and_a_quiet_line_is_forgotten() -> None:
    lines = RefusedLines()
    lines.refuse(of("a"), full("max_waiting_turns", 60.0), 0.0)
    let_through = [step / 100 for step in range(301) if lines.ask(of("a"), step / 100) is None]
    assert let_through == pytest.approx([PROBE_S * number for number in range(1, 7)])
    assert lines.ask(of("a"), 3.0 + FORGET_S) is None
    assert not lines


def test_of_requests_that_nobody_has_read_as_many_pass_as_the_line_of_a_runner_has_room_for() -> None:
    lines = RefusedLines()
    assert lines.let_through(1, 0.0) is None
    lines.refuse(of("a"), full("max_waiting_turns"), 0.0)
    told = lines.let_through(1, 0.01)
    assert told is not None
    assert told.args[2] == "max_waiting_turns"
    lines.leave(of("a"))
    lines.leave(of("b"))
    assert [lines.let_through(1, 0.02) is None for _ in range(3)] == [True, True, False]
    # One of them asks, so there is room for the other one only, which may not come.
    assert lines.ask(of("c"), 0.03) is None
    assert lines.let_through(1, 0.03) is not None
    assert [lines.let_through(1, 0.02 + PASSED_S) is None for _ in range(2)] == [True, False]
    assert [lines.let_through(1, PROBE_S + 0.2) is None for _ in range(2)] == [True, False]


def test_requests_pass_where_the_line_of_any_runner_is_not_known_to_be_full() -> None:
    lines = RefusedLines()
    lines.refuse(of("a"), full("max_waiting_turns"), 0.0)
    assert lines.let_through(2, 0.0) is None
    lines.refuse(of("a", runner=1), full("max_waiting_user_turns"), 0.0)
    assert lines.let_through(2, 0.0) is None
    lines.refuse(of("a", runner=1), full("max_waiting_turns", 1.5), 0.0)
    told = lines.let_through(2, 0.0)
    assert told is not None
    assert told.retry_after_s == 1.5, "the line of the other Runner may have room later"
    lines.leave(of("b", runner=1))
    assert [lines.let_through(2, 0.0) is None for _ in range(2)] == [True, False]


@pytest.mark.parametrize("seed", range(20))
def test_hardly_any_request_is_made_in_vain_and_the_line_stays_full(seed: int) -> None:
    chance = random.Random(seed)
    programs, backlog = [RefusedLines() for _ in range(chance.randint(1, 3))], Backlog(Limits(max_waiting_turns=20))
    waiting: list[tuple[int, TurnKey]] = []
    asked_in_vain, refused, idle = 0, 0, 0
    steps, step_s = 4_000, 0.005
    for step in range(steps):
        now_s = step * step_s
        # Three come for each that is served.
        for number in range(3):
            which = chance.randrange(len(programs))
            key = SessionKey("app", chance.choice("abc"), chance.choice("st"))
            turn = (key, f"e-{step}-{number}")
            if programs[which].ask(lines_of(0, key), now_s) is not None:
                refused += 1
            elif (told := backlog.refusal(turn, 1, now_s)) is not None:
                asked_in_vain += 1
                programs[which].refuse(lines_of(0, key), told, now_s)
            else:
                backlog.add(turn, 1, now_s)
                waiting.append((which, turn))
        if waiting:
            which, turn = waiting.pop(0)
            backlog.remove(turn)
            programs[which].leave(lines_of(0, turn[0]))
        idle += step > 100 and len(backlog) < 10
    assert idle == 0
    assert refused > steps
    assert asked_in_vain <= len(programs) * (2 + steps * step_s / PROBE_S)


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


def turn(number: int) -> TurnState:
    return TurnState(SessionKey("app", "ada", "s1"), f"e{number}")


async def test_once_it_has_forgotten_the_last_one_a_turn_costs_what_it_did_before(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[SessionKey] = []

    def noted(runner: int, key: SessionKey) -> tuple[Line, Line, Line]:
        looked.append(key)
        return lines_of(runner, key)

    monkeypatch.setattr(turn_client, "lines_of", noted)
    loop = asyncio.get_running_loop()
    passed_s = 0.0
    engine = SimpleNamespace(runner=SimpleNamespace(number_of=lambda key: 0, count=1), settings=None)
    client = SimpleNamespace(engine=engine, loop_time_s=lambda: loop.time() + passed_s)
    program = Refusals(cast(Any, client))

    def run(number: int) -> int:
        """Run a turn, and count the looks at its lines."""
        before, one = len(looked), turn(number)
        assert program.ask(one) is None
        program.leave(one)
        return len(looked) - before

    assert run(1) == 0
    refused = turn(2)
    assert program.ask(refused) is None
    program.note(refused, OverloadedError("session 's1'", "1 turns", "max_waiting_session_turns", 0.1))
    assert isinstance(program.ask(turn(3)), OverloadedError)
    passed_s = FORGET_S + 0.1
    run(4)
    assert [run(number) for number in (5, 6)] == [0, 0]
    refused = turn(7)
    assert program.ask(refused) is None
    program.note(refused, OverloadedError("session 's1'", "1 turns", "max_waiting_session_turns", 0.1))
    passed_s = 0.0
    assert isinstance(program.ask(turn(8)), OverloadedError)
