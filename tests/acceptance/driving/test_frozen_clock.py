"""A clock that stands still: what waits on the local engine goes by it, each at its own time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from actors import Budget, LlmAgent, RunConfig, SequentialAgent, Supervision, tool
from actors.errors import BudgetExceededError, DefinitionError, RequestError, TurnTimeoutError
from actors.interfaces.stores import Write
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from runtime.frontends.testing import frozen_clock
from runtime.settings import Settings
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.testing import FrozenClock
from tests.support.runtimes import Deploy, stored

DAY_S = 24 * 3600.0
YEAR_S = 365 * DAY_S


class Waits:
    """A tool that waits for an hour, twice; and one that no clock moves."""

    def __init__(self) -> None:
        self.over: list[float] = []
        self.release = threading.Event()

    async def hours(self) -> dict[str, int]:
        """Wait for two hours."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for _ in range(2):
            await asyncio.sleep(3600)
            self.over.append(loop.time() - began_s)
        return {"hours": 2}

    def stuck(self) -> None:
        """Wait for what never comes."""
        self.release.wait(60)


@pytest.fixture
def waits() -> Iterator[Waits]:
    made = Waits()
    yield made
    made.release.set()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def rt(local: Deploy, clock: FrozenClock, waits: Waits) -> Iterator[Runtime]:
    calls = PatternModel([("hours", {"call": "hours"}), ("stuck", {"call": "stuck"})])
    with local(LlmAgent(name="a", model=calls, tools=[tool(waits.hours), tool(waits.stuck)]), clock=clock) as rt:
        yield rt


def say(rt: Runtime, message: str, **options: Any) -> Turn:
    return rt.run(user_id="ada", session_id="s1", message=message, run_config=RunConfig(**options))


def test_waits_end_when_the_clock_says_so_each_at_its_time(rt: Runtime, clock: FrozenClock, waits: Waits) -> None:
    turn = say(rt, "hours")
    clock.advance(3599)
    assert waits.over == []
    assert clock.next_wait_s() == pytest.approx(1)
    clock.advance(7200)
    assert waits.over == pytest.approx([3600, 7200])
    assert turn.result().text == '{"hours":2}'
    assert clock.advanced_s == pytest.approx(3599 + 7200)


def test_a_turn_takes_too_long_by_the_clock(rt: Runtime, clock: FrozenClock) -> None:
    turn = say(rt, "hours", timeout=60)
    clock.advance(59)
    assert rt.turns.list()[0].state == "running"
    clock.advance(2)
    with pytest.raises(TurnTimeoutError):
        turn.result()


def test_the_clock_goes_on_without_a_thread_that_does_not(rt: Runtime, clock: FrozenClock) -> None:
    turn = say(rt, "stuck", timeout=60)
    clock.advance(61)
    with pytest.raises(TurnTimeoutError):
        turn.result()


async def test_a_test_on_an_event_loop_moves_it_too(rt: Runtime, clock: FrozenClock) -> None:
    turn = say(rt, "hours")
    clock.advance(7200)
    assert (await turn).text == '{"hours":2}'


def test_a_failed_child_is_tried_again_after_pauses_of_the_clock(local: Deploy, clock: FrozenClock) -> None:
    model = ScriptedModel([ConnectionError("away"), ConnectionError("away"), "Here."])
    again = Supervision(strategy="restart", max_restarts=3, within_s=600, backoff_s=30)
    root = SequentialAgent(name="root", sub_agents=[LlmAgent(name="child", model=model)], supervision=again)
    with local(root, clock=clock) as rt:
        turn = say(rt, "x")
        clock.advance(1)
        assert len(model.requests) == 1
        clock.advance(600)
        assert turn.result().text == "Here."


def test_limits_of_models_go_by_the_clock(local: Deploy, clock: FrozenClock) -> None:
    settings = Settings(model_limits={"*": {"requests_per_minute": 1}})
    with local(LlmAgent(name="a", model=ScriptedModel(["one", "two"])), clock=clock, settings=settings) as rt:
        assert say(rt, "x").result().text == "one"
        turn = say(rt, "y")
        clock.advance(1)
        assert rt.turns.list(state="running")[0].invocation_id == turn.invocation_id
        clock.advance(120)
        assert turn.result().text == "two"


def test_the_clock_waits_for_a_store_that_is_slow(local: Deploy, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_clock, "PATIENCE_S", 0.05)
    commit = SqlSessionStore.commit

    def slow_commit(store: SqlSessionStore, writes: Sequence[Write]) -> None:
        time.sleep(0.2)
        commit(store, writes)

    monkeypatch.setattr(SqlSessionStore, "commit", slow_commit)
    with local(LlmAgent(name="a", model=ScriptedModel(["yes"])), clock=clock) as rt:
        turn = say(rt, "x")
        clock.advance(3600)
        assert turn.result().text == "yes"
        assert rt.statistics().session.counts["turns"] == 1


def test_a_runtime_closes_in_real_time_while_its_clock_stands(local: Deploy, clock: FrozenClock, waits: Waits) -> None:
    root = LlmAgent(name="a", model=PatternModel([("", {"call": "hours"})]), tools=[tool(waits.hours)])
    for _ in range(2):
        with local(root, clock=clock) as rt:
            say(rt, "x")
            clock.advance(60)
        assert clock.next_wait_s() is None


def test_only_a_test_moves_the_clock_and_only_forward(local: Deploy, clock: FrozenClock) -> None:
    async def move() -> None:
        """Move the time."""
        clock.advance(1)

    model = PatternModel([("", {"call": "move"})])
    with local(LlmAgent(name="a", model=model, tools=[tool(move)]), clock=clock) as rt:
        with pytest.raises(RequestError, match="forward only"):
            clock.advance(-1)
        assert "a test calls it, and no agent or tool" in say(rt, "x").result().text


def test_ray_has_no_such_clock(clock: FrozenClock) -> None:
    with pytest.raises(DefinitionError, match="use engine='local' with it"):
        Runtime(LlmAgent(name="a", model=PatternModel([])), app_name="test", clock=clock)


def test_timestamps_are_those_of_the_clock(rt: Runtime, clock: FrozenClock) -> None:
    clock.advance(YEAR_S)
    events = [*say(rt, "x").result().events, *stored(rt)]
    assert max(abs(event.timestamp - clock.now_s()) for event in events) < 1
    assert rt.turns.list()[0].begun_s == pytest.approx(clock.now_s(), abs=1)


def test_a_budget_of_a_day_begins_anew_at_midnight_of_the_clock(local: Deploy, clock: FrozenClock) -> None:
    settings = Settings(daily_budget=Budget(llm_calls=3))
    of_user = {"user_daily_budget": Budget(llm_calls=2)}
    with local(LlmAgent(name="a", model=PatternModel([], default="yes")), clock=clock, settings=settings) as rt:
        clock.advance(DAY_S - clock.now_s() % DAY_S)
        for day in range(3):
            for _ in range(2):
                assert say(rt, "x", **of_user).result().text == "yes"
            with pytest.raises(BudgetExceededError, match="user 'ada' today"):
                say(rt, "x", **of_user).result()
            say(rt, "x").result()
            with pytest.raises(BudgetExceededError, match="app 'test' today"):
                say(rt, "x").result()
            assert len(rt.usage(by="day").groups) == day + 1
            clock.advance(DAY_S)


def test_many_days_in_which_nothing_happens_pass_at_once(local: Deploy, clock: FrozenClock) -> None:
    with local(LlmAgent(name="a", model=PatternModel([], default="yes")), clock=clock) as rt:
        say(rt, "x").result()
        rt.schedules.create("rare", user_id="ada", message="tick", at=clock.now_s() + 199 * DAY_S)
        began_s = time.perf_counter()
        clock.advance(200 * DAY_S)
        # Looks of those that wait took 0.9 s of each day.
        assert time.perf_counter() - began_s < 20
        assert len(rt.turns.list(state="finished")) == 2
