"""A program that was refused asks for a turn again when there may be room, and only where its line was full."""

from __future__ import annotations

import random

import pytest

from actors.errors import DrainingError, OverloadedError
from actors.messages.config import Limits
from actors.messages.session import SessionKey, TurnKey
from actors.rules.queues import Backlog
from runtime.driver.turns.refused_lines import FORGET_S, PASSED_S, PROBE_S, Line, RefusedLines, lines_of


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
