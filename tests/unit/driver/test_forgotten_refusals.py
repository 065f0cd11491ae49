"""A program that was refused looks at lines only as long as it remembers any."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.errors import OverloadedError
from actors.messages.session import SessionKey
from runtime.driver.turns import client as turn_client
from runtime.driver.turns.client import Refusals
from runtime.driver.turns.refused_lines import FORGET_S, Line, lines_of
from runtime.driver.turns.state import TurnState


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
