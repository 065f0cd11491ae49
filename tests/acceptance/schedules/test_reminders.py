"""Agents remind their users: within limits, once for each call, and only of what agents were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent, Reminders
from actors.errors import DefinitionError
from actors.layers.schedules.messages import CreateSchedule
from actors.messages import protocol as p
from actors.testing import PatternModel, ScriptedModel
from runtime import Runtime
from runtime.settings import Settings
from runtime.testing import FrozenClock
from tests.support.fixtures.lossy_engine import Process, lossy_runtime
from tests.support.runtimes import Deploy, run_turn, stored


def helper(*calls: tuple[str, dict[str, Any]], **limits: Any) -> LlmAgent:
    """An agent that makes these calls, one in each turn."""
    said: list[Any] = [each for name, args in calls for each in ({"call": name, "args": args}, "done")]
    return LlmAgent(name="helper", model=ScriptedModel([*said, *["reminded"] * 9]), tools=[Reminders(**limits)])


def results(rt: Runtime, calls: int) -> list[dict[str, Any]]:
    """What the tools have answered, one in each turn."""
    found: list[dict[str, Any]] = []
    for _ in range(calls):
        events = run_turn(rt, "go")
        found += [dict(response.response or {}) for event in events for response in event.function_responses()]
    return found


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


def test_a_reminder_comes_in_its_session_and_is_gone(deploy: Deploy) -> None:
    calls = [("remind_me", {"message": "tea", "in_minutes": 90}), ("list_reminders", {})]
    with deploy(helper(*calls)) as rt:
        made, listed = results(rt, 2)
        assert made["message"] == "tea"
        assert listed["reminders"] == [made]
        [schedule] = rt.schedules.list("ada")
        assert (schedule.name, schedule.agent, schedule.session_id) == (made["name"], "helper", "s1")
        rt.schedules.run_now(schedule.name, user_id="ada").result()
        assert [event.text for event in stored(rt)][-2:] == [schedule.message.text, "reminded"]


def test_reminders_by_time_and_again_and_again(tmp_path: Path, clock: FrozenClock) -> None:
    calls = [
        ("remind_me", {"message": "bank", "at": "2199-01-01T09:00"}),
        ("remind_me", {"message": "stand-up", "cron": "0 9 * * *", "timezone": "UTC"}),
        ("list_reminders", {}),
    ]
    root = helper(*calls, max_ahead_days=200 * 366, timezone="Europe/Berlin")
    with Deploy("local", tmp_path)(root, clock=clock, settings=Settings(max_schedule_ahead_days=200 * 366)) as rt:
        bank, daily, listed = results(rt, 3)
        assert (bank["next"], daily["cron"]) == ("2199-01-01T09:00:00+01:00", "0 9 * * *")
        assert sorted(each["message"] for each in listed["reminders"]) == ["bank", "stand-up"]
        clock.advance(2 * 86_400)
        assert [event.text for event in stored(rt)].count("reminded") == 2


def test_what_is_beyond_the_limits_or_wrong_is_told_to_the_model(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("remind_me", {"message": "x"}),
        ("remind_me", {"message": "x", "at": "tomorrow"}),
        ("remind_me", {"message": "x", "at": "2030-01-01T00:00", "in_minutes": 5}),
        ("remind_me", {"message": "x", "in_minutes": -5}),
        ("remind_me", {"message": "x", "in_minutes": 60 * 24 * 11}),
        ("remind_me", {"message": "x", "cron": "* * * * *"}),
        ("remind_me", {"message": "x", "in_minutes": 5, "timezone": "Berlin"}),
        ("remind_me", {"message": "x", "in_minutes": 5}),
        ("remind_me", {"message": "x", "in_minutes": 5}),
        ("cancel_reminder", {"name": "digest"}),
    ]
    with Deploy("local", tmp_path)(helper(*calls, most=1, max_ahead_days=10)) as rt:
        rt.schedules.create("digest", user_id="ada", message="of a program", every=3_600)
        *wrong, made, too_many, foreign = [each.get("error", "") for each in results(rt, len(calls))]
        for said, expected in zip(
            wrong,
            (
                "give one of",
                "write it as",
                "give one of at, in_minutes and cron",
                "it has passed",
                "nothing later than 10 days",
                "60 s apart, and this agent allows no less than 3600 s",
                "IANA",
            ),
            strict=True,
        ):
            assert expected in said
        assert made == ""
        assert "has 1 schedules, and the toolset allows no more" in too_many
        assert "there is no reminder 'digest'. There are: reminder-" in foreign
        assert len(rt.schedules.list("ada")) == 2


def test_a_reminder_is_cancelled_by_the_agent(tmp_path: Path) -> None:
    model = PatternModel(
        [
            ("tool:", "done"),
            ("remind", {"call": "remind_me", "args": {"message": "tea", "in_minutes": 90}}),
        ]
    )
    with Deploy("local", tmp_path)(LlmAgent(name="helper", model=model, tools=[Reminders()])) as rt:
        run_turn(rt, "remind me of tea")
        [name] = [each.name for each in rt.schedules.list("ada")]
    with Deploy("local", tmp_path)(helper(("cancel_reminder", {"name": name}))) as rt:
        assert results(rt, 1) == [{"cancelled": name}]
        assert rt.schedules.list("ada") == []


@pytest.mark.parametrize("who", ["agents", "session", "runner"])
@pytest.mark.parametrize("handled", [False, True])
def test_a_call_that_is_repeated_after_a_loss_makes_one_reminder(tmp_path: Path, who: str, handled: bool) -> None:
    args = {"message": "tea", "at": "2035-01-01T00:00"}
    patterns: list[Any] = [("tool:", "done"), ("", {"call": "remind_me", "args": args})]
    root = LlmAgent(name="helper", model=PatternModel(patterns), tools=[Reminders(max_ahead_days=100 * 366)])
    rt, engine = lossy_runtime(root, tmp_path)
    asked = 0

    async def lose(sender: Process, message: p.Message, is_handled: bool) -> None:
        nonlocal asked
        if isinstance(message, CreateSchedule) and is_handled == handled:
            asked += 1
            if asked == 1:
                await engine.lose(who)

    engine.meddler = lose
    with rt:
        assert run_turn(rt, "go")[-1].text == "done"
        assert (len(rt.schedules.list("ada")), asked) == (1, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"most": 0}, "most must be a whole number from 1 on, not 0"),
        ({"min_interval_s": 1.5}, "min_interval_s must be a whole number"),
        ({"timezone": "Berlin"}, "timezone 'Berlin'"),
    ],
)
def test_wrong_limits_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Reminders(**given)
