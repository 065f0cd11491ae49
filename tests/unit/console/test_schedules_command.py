"""`raygrove schedules`, over a Runtime that stands for the deployment that it joins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from actors import LlmAgent
from actors.errors import InvalidScheduleError, RequestError, ScheduleNotFoundError
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.console import have_joined, invoke
from tests.support.runtimes import Deploy


@pytest.fixture
def rt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="two orders"))) as rt:
        have_joined(monkeypatch, rt)
        yield rt


def schedules(command: str, *arguments: str) -> Result:
    return invoke("schedules", command, "desk", *arguments)


def rows(result: Result) -> list[list[str]]:
    return [line.split("\t") for line in result.output.splitlines()][1:]


def test_a_schedule_is_created_paused_resumed_run_and_deleted(rt: Runtime) -> None:
    times = ["--cron", "30 8 * * MON-FRI", "--timezone", "Europe/Berlin", "--timeout", "10m"]
    [made] = rows(schedules("create", "digest", "the news?", "--user", "ada", "--session", "s1", *times))
    assert made[:5] == ["ada", "digest", "s1", "30 8 * * MON-FRI Europe/Berlin", "active"]
    stored = rt.schedules.get("digest", user_id="ada")
    assert stored.run_config is not None
    assert (stored.message.text, stored.run_config.timeout) == ("the news?", 600)
    assert rows(schedules("list")) == [made]
    assert rows(schedules("pause", "digest"))[0][4:6] == ["paused", "-"]
    assert rows(schedules("resume", "digest")) == [made]
    assert schedules("run", "digest").output.strip() == "two orders"
    assert schedules("delete", "digest").output == "deleted schedule 'digest' of user 'ada'\n"
    assert rows(schedules("list")) == []


def test_intervals_and_single_times_are_shown_as_such(rt: Runtime) -> None:
    schedules("create", "often", "x", "--user", "ada", "--every", "15m")
    schedules("create", "once", "x", "--user", "bob", "--at", "2035-11-30T08:00", "--missed", "skip")
    assert [row[1:4] for row in rows(schedules("list"))] == [["often", "often", "every 900 s"], ["once", "once", "once"]]
    told = [json.loads(line) for line in schedules("list", "--user", "bob", "--json").output.splitlines()]
    assert [(each["name"], each["atS"], each["missed"]) for each in told] == [("once", 2_080_022_400, "skip")]


def test_the_user_is_needed_where_several_have_one_of_a_name(rt: Runtime) -> None:
    for user in ("ada", "bob"):
        schedules("create", "digest", "x", "--user", user, "--every", "1h")
    with pytest.raises(RequestError, match="is there of several users: choose with --user ada or bob"):
        schedules("pause", "digest")
    schedules("delete", "digest", "--user", "bob")
    assert rows(schedules("pause", "digest"))[0][0] == "ada"
    with pytest.raises(RequestError, match="no user has a schedule 'digets'"):
        schedules("pause", "digets")
    with pytest.raises(ScheduleNotFoundError):
        schedules("delete", "digest", "--user", "eve")


def test_what_is_wrong_is_told(rt: Runtime) -> None:
    with pytest.raises(InvalidScheduleError, match="give one of"):
        schedules("create", "digest", "x", "--user", "ada")
    assert schedules("create", "digest", "x", "--user", "ada", "--every", "soon").exit_code == 2
