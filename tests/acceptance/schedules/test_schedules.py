"""Schedules, and reminders that agents make: each due time makes one turn."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, Reminders
from actors.errors import (
    DefinitionError,
    InvalidIdError,
    InvalidScheduleError,
    RequestError,
    ScheduleExistsError,
    ScheduleNotFoundError,
    TooLargeError,
    TooManySchedulesError,
    UnknownAgentError,
)
from actors.layers.schedules.messages import CreateSchedule
from actors.messages import protocol as p
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.testing import FrozenClock
from tests.support.fixtures.lossy_engine import Process, lossy_runtime
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.stores.unowned_store import UnownedStore

DAY_S = 86_400


def root() -> LlmAgent:
    return LlmAgent(name="root", model=PatternModel([], default="ok"))


def due_times(rt: Runtime, session_id: str, user_id: str = "ada") -> list[str]:
    """The due times of the turns of a session, in order, each once the turn has its answer."""
    events = stored(rt, session_id, user_id)
    answered = {event.invocation_id for event in events if event.author == "root"}
    marks = [event.custom_metadata for event in events if event.author == "user" and event.invocation_id in answered]
    return [str((mark or {}).get("due", "by hand")) for mark in marks]


def shown(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat().replace("+00:00", "Z")


class Talker:
    """Makes an agent that answers `talk` when its gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    def agent(self) -> LlmAgent:
        return LlmAgent(name="root", model=PatternModel([], default="ok"), before_model_callback=self.hold)

    async def hold(self, context: CallbackContext, request: LlmRequest) -> None:
        if any(part.text == "talk" for part in request.contents[-1].parts):
            await self.gate.wait()


class Place:
    """A Runtime on the local engine whose time a test moves, and others after it over the same store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = FrozenClock()
        self.folder = folder
        self._deploy = Deploy("local", folder)
        self._settings = Settings(**settings)

    def runtime(self, agent: Any = None, **options: Any) -> Runtime:
        return self._deploy(agent or root(), clock=self.clock, settings=self._settings, **options)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_budget_of_an_agent_that_there_is_not_is_refused_when_the_schedule_is_created(place: Place) -> None:
    budgets = {"agent_budgets": {"rot": {"llm_calls": 1}}}
    with place.runtime() as rt:
        with pytest.raises(UnknownAgentError, match="Did you mean 'root'"):
            rt.schedules.create("daily", user_id="ada", message="hi", every=DAY_S, run_config=budgets)
        assert list(rt.schedules.list()) == []


def test_each_due_time_makes_one_turn(deploy: Deploy) -> None:
    with deploy(root(), settings=Settings(min_schedule_interval_s=1)) as rt:
        created = rt.schedules.create("ping", user_id="ada", session_id="s1", message="tick", every=1, missed="all")
        rt.schedules.create("once", user_id="bob", message="now", at=datetime.now(UTC) + timedelta(seconds=1))
        until(lambda: len(due_times(rt, "s1")) >= 3 and due_times(rt, "once", "bob"))
        paused = rt.schedules.pause("ping", user_id="ada")
        made = due_times(rt, "s1")
        assert created.next_s is not None
        assert made[:3] == [shown(created.next_s + number) for number in range(3)]
        assert (paused.state, paused.next_s, paused.turns >= len(made)) == ("paused", None, True)
        assert len(due_times(rt, "once", "bob")) == 1
        assert [each.name for each in rt.schedules.list()] == ["ping"], "one without a next due time is deleted"
        turn = rt.schedules.run_now("ping", user_id="ada")
        assert turn.result().text == "ok"
        rt.schedules.delete("ping", user_id="ada")
        assert rt.schedules.list() == []


async def test_callers_on_an_event_loop_have_the_same_methods(deploy: Deploy) -> None:
    async with deploy(root()) as rt:
        schedules = rt.aio.schedules
        created = await schedules.create("digest", user_id="ada", message="news?", cron="0 8 * * *", timezone="Europe/Berlin")
        assert await schedules.get("digest", user_id="ada") == created
        assert await schedules.list("ada") == [created]
        assert (await schedules.pause("digest", user_id="ada")).state == "paused"
        assert await schedules.resume("digest", user_id="ada") == created
        assert (await (await schedules.run_now("digest", user_id="ada")).result_async()).text == "ok"
        await schedules.delete("digest", user_id="ada")
        with pytest.raises(ScheduleNotFoundError):
            await schedules.get("digest", user_id="ada")


def test_what_is_wrong_is_refused(deploy: Deploy) -> None:
    settings = Settings(max_user_schedules=2, max_schedule_ahead_days=30)
    with deploy(root(), settings=settings) as rt:
        create = rt.schedules.create
        create("digest", user_id="ada", message="news?", every=3_600)
        with pytest.raises(ScheduleExistsError, match="user 'ada' has a schedule 'digest' already"):
            create("digest", user_id="ada", session_id="other", message="news?", every=60)
        create("digest", user_id="bob", message="of another user", every=60)
        with pytest.raises(InvalidScheduleError, match="it has passed"):
            create("late", user_id="ada", message="x", at=datetime.now(UTC) - timedelta(seconds=1))
        with pytest.raises(InvalidScheduleError, match="max_schedule_ahead_days allows at most 30"):
            create("far", user_id="ada", message="x", at=datetime.now(UTC) + timedelta(days=31))
        with pytest.raises(InvalidScheduleError, match="min_schedule_interval_s allows no less than 10 s"):
            create("often", user_id="ada", message="x", every=9)
        with pytest.raises(InvalidScheduleError, match="write five fields"):
            create("cron", user_id="ada", message="x", cron="@daily")
        with pytest.raises(RequestError, match="missed must be one of once, all, skip"):
            create("policy", user_id="ada", message="x", every=60, missed="none")  # type: ignore[arg-type]
        with pytest.raises(InvalidIdError, match="schedule name"):
            create("", user_id="ada", message="x", every=60)
        with pytest.raises(TooLargeError, match="schedule 'long' has 70"):
            create("long", user_id="ada", message="x" * 70_000, every=60)
        create("second", user_id="ada", message="x", every=60)
        with pytest.raises(TooManySchedulesError, match="user 'ada' has 2 schedules, and max_user_schedules allows no more"):
            create("third", user_id="ada", message="x", every=60)
        with pytest.raises(ScheduleNotFoundError, match=r"user 'ada' has no schedule 'digets'\. Did you mean 'digest'\?"):
            rt.schedules.pause("digets", user_id="ada")
        with pytest.raises(ScheduleNotFoundError, match="user 'eve' has no schedule 'digest'"):
            rt.schedules.delete("digest", user_id="eve")
        assert [(each.user_id, each.name) for each in rt.schedules.list()] == [
            ("ada", "digest"),
            ("ada", "second"),
            ("bob", "digest"),
        ]
        first = rt.schedules.list(limit=1)
        assert [each.name for each in rt.schedules.list("ada", after=first[0])] == ["second"]


def test_cron_goes_by_the_clock_of_its_time_zone(place: Place) -> None:
    with place.runtime() as rt:
        created = rt.schedules.create("morning", user_id="ada", message="up", cron="30 8 * * *", timezone="Asia/Kolkata")
        place.clock.advance(3 * DAY_S)
        made = due_times(rt, "morning")
        assert len(made) == 3
        assert all(each.endswith("T03:00:00Z") for each in made)
        assert rt.schedules.get("morning", user_id="ada").next_s == (created.next_s or 0) + 3 * DAY_S


def test_nothing_is_due_while_a_schedule_is_paused_and_nothing_is_made_up(place: Place) -> None:
    with place.runtime() as rt:
        rt.schedules.create("hourly", user_id="ada", message="x", every=3_600, missed="all")
        place.clock.advance(3_600)
        rt.schedules.pause("hourly", user_id="ada")
        assert rt.schedules.pause("hourly", user_id="ada").state == "paused"
        place.clock.advance(5 * 3_600)
        resumed = rt.schedules.resume("hourly", user_id="ada")
        assert rt.schedules.resume("hourly", user_id="ada") == resumed
        assert (resumed.state, resumed.turns) == ("active", 1)
        place.clock.advance(3_600)
        assert len(due_times(rt, "hourly")) == 2


def test_a_single_time_that_passes_while_it_is_paused_cannot_be_resumed(place: Place) -> None:
    with place.runtime() as rt:
        rt.schedules.create("once", user_id="ada", message="x", at=place.clock.now_s() + 60)
        rt.schedules.pause("once", user_id="ada")
        place.clock.advance(120)
        with pytest.raises(InvalidScheduleError, match=r"its time has passed: .* UTC\. Run it now, or create another one"):
            rt.schedules.resume("once", user_id="ada")
        assert rt.schedules.run_now("once", user_id="ada").result().text == "ok"


@pytest.mark.parametrize(("missed", "made_up"), [("once", 1), ("all", 5), ("skip", 0)])
def test_what_was_missed_while_the_deployment_was_down(place: Place, missed: Any, made_up: int) -> None:
    with place.runtime() as rt:
        rt.schedules.create("hourly", user_id="ada", message="x", every=3_600, missed=missed)
        created = rt.schedules.create("once", user_id="ada", message="x", at=place.clock.now_s() + 60, missed=missed)
    place.clock.advance(5 * 3_600 + 120)
    with place.runtime() as rt:
        place.clock.advance(10)
        assert len(due_times(rt, "hourly")) == made_up
        assert len(due_times(rt, "once")) == min(made_up, 1)
        if missed == "skip":
            skipped = rt.schedules.get("once", user_id="ada")
            assert (skipped.state, skipped.error) == ("failed", "the deployment was down at that time")
        else:
            with pytest.raises(ScheduleNotFoundError):
                rt.schedules.get("once", user_id="ada")
        place.clock.advance(3_600)
        assert len(due_times(rt, "hourly")) == made_up + 1
    assert created.next_s is not None


def test_a_turn_that_a_lost_deployment_has_begun_goes_on_in_the_next_one(place: Place) -> None:
    rt = place.runtime(Talker().agent(), session_store=UnownedStore(f"sqlite:///{place.folder}/sessions.db"))
    rt.start()
    rt.schedules.create("once", user_id="ada", message="talk", at=place.clock.now_s() + 60)
    place.clock.advance(61)
    assert [event.text for event in stored(rt, "once")] == ["talk"]
    # As if the machine were gone: nothing ends the turn.
    rt._client.run(rt._client.engine.session.stop())
    with place.runtime() as other:
        until(lambda: due_times(other, "once"))
        assert [event.text for event in stored(other, "once")] == ["talk", "ok"]


def test_a_turn_waits_for_its_session_and_those_that_were_due_meanwhile_make_one(place: Place) -> None:
    talker = Talker()
    with place.runtime(talker.agent()) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="talk")
        rt.schedules.create("minutely", user_id="ada", session_id="s1", message="tick", every=60)
        rt.schedules.create("other", user_id="bob", message="tick", every=60)
        place.clock.advance(10 * 60)
        assert due_times(rt, "s1") == []
        assert len(due_times(rt, "other", "bob")) == 10
        rt._client.call_soon(talker.gate.set)
        turn.result()
        place.clock.advance(1)
        assert len(due_times(rt, "s1")) == 3, "the first that waited, and the newest of those after it; and the talk"
        assert rt.schedules.get("minutely", user_id="ada").turns == 2


def test_a_turn_of_a_schedule_that_is_deleted_while_it_waits_does_not_begin(place: Place) -> None:
    talker = Talker()
    with place.runtime(talker.agent()) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="talk")
        for name in ("deleted", "paused"):
            rt.schedules.create(name, user_id="ada", session_id="s1", message=name, every=60)
        place.clock.advance(60)
        rt.schedules.delete("deleted", user_id="ada")
        rt.schedules.pause("paused", user_id="ada")
        rt._client.call_soon(talker.gate.set)
        turn.result()
        place.clock.advance(1)
        assert [event.text for event in stored(rt, "s1")] == ["talk", "ok"]


def test_a_schedule_does_not_wait_for_a_turn_of_one_that_had_its_name_before(place: Place) -> None:
    talker = Talker()
    with place.runtime(talker.agent()) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="talk")
        rt.schedules.create("minutely", user_id="ada", session_id="s1", message="tick", every=60)
        place.clock.advance(60)
        rt.schedules.delete("minutely", user_id="ada")
        rt.schedules.create("minutely", user_id="ada", session_id="s2", message="tick", every=60)
        place.clock.advance(60)
        assert len(due_times(rt, "s2")) == 1
        rt._client.call_soon(talker.gate.set)
        turn.result()


def test_a_turn_that_is_cancelled_while_it_waits_counts_as_made_and_the_schedule_says_so(place: Place) -> None:
    talker = Talker()
    with place.runtime(talker.agent()) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="talk")
        created = rt.schedules.create("minutely", user_id="ada", session_id="s1", message="tick", every=60)
        place.clock.advance(60)
        [waiting] = rt.turns.list("ada", "s1", state="waiting")
        rt.attach(user_id="ada", session_id="s1", invocation_id=waiting.invocation_id).cancel()
        told = rt.schedules.get("minutely", user_id="ada")
        assert (told.turns, told.next_s) == (0, (created.next_s or 0) + 60)
        assert told.error == f"TurnCancelledError: turn {waiting.invocation_id!r} was cancelled"
        rt._client.call_soon(talker.gate.set)
        turn.result()
        place.clock.advance(60)
        assert rt.schedules.get("minutely", user_id="ada").error == ""
        assert len(due_times(rt, "s1")) == 2


def test_where_too_much_waits_the_turn_begins_later(tmp_path: Path) -> None:
    place, talker = Place(tmp_path, max_waiting_session_turns=1), Talker()
    with place.runtime(talker.agent()) as rt:
        turns = []
        for message in ("talk", "more"):
            turns.append(rt.run(user_id="ada", session_id="s1", message=message))
            place.clock.advance(0)
        assert [turn.state for turn in rt.turns.list("ada", "s1")] == ["waiting", "running"]
        rt.schedules.create("once", user_id="ada", session_id="s1", message="tick", at=place.clock.now_s() + 60)
        place.clock.advance(65)
        assert rt.schedules.get("once", user_id="ada").turns == 0
        rt._client.call_soon(talker.gate.set)
        for turn in turns:
            turn.result()
        place.clock.advance(60)
        assert [event.text for event in stored(rt, "s1")][-2:] == ["tick", "ok"]
        assert rt.schedules.list() == []


def test_the_schedules_of_a_deleted_user_are_deleted(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        for user in ("ada", "bob"):
            rt.schedules.create("digest", user_id=user, message="x", every=3_600)
        assert rt.users.delete("ada").schedules == 1
        assert [each.user_id for each in rt.schedules.list()] == ["bob"]


def test_a_deleted_session_begins_anew_at_the_next_due_time_and_no_turn_of_it_again(place: Place) -> None:
    with place.runtime() as rt:
        rt.schedules.create("hourly", user_id="ada", message="x", every=3_600)
        place.clock.advance(3_600)
        rt.sessions.delete("ada", "hourly")
        place.clock.advance(60)
        assert rt.sessions.get("ada", "hourly") is None
        place.clock.advance(3_600)
        assert len(due_times(rt, "hourly")) == 1


def test_a_turn_that_is_rewound_is_not_made_again(place: Place) -> None:
    with place.runtime() as rt:
        rt.schedules.create("hourly", user_id="ada", message="x", every=3_600)
        place.clock.advance(3_600)
        rt.sessions.rewind("ada", "hourly", stored(rt, "hourly")[0].invocation_id)
        place.clock.advance(60)
        assert [event for event in stored(rt, "hourly") if event.content] == []


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
