"""The command `raygrove`, over several stores of one app."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from actors import LlmAgent
from actors.errors import StoreError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.frontends.console import cli
from tests.support.runtimes import Deploy, run_turn
from tests.support.several_stores import APP, in_each_store, store_files, users_at


def raygrove(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def objects(result: Result) -> list[dict[str, object]]:
    if result.exception is not None:
        raise result.exception
    return [json.loads(line) for line in result.output.splitlines()]


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    found = store_files(tmp_path, 2)
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="hello")), session_store=found) as rt:
        for user in in_each_store(2):
            run_turn(rt, "hi", user_id=user)
    return found


def named(urls: list[str]) -> list[str]:
    return [word for url in urls for word in ("--store", url)]


def test_sessions_of_all_stores_are_listed_and_shown(urls: list[str]) -> None:
    first, second = in_each_store(2)
    listed = objects(raygrove("sessions", "list", APP, "--json", *named(urls)))
    assert [each["userId"] for each in listed] == [second, first]
    assert [each["userId"] for each in objects(raygrove("sessions", "list", APP, "--limit", "1", "--json", *named(urls)))] == [
        second
    ]
    for user in (first, second):
        assert len(objects(raygrove("sessions", "show", APP, "s1", "--user", user, "--json", *named(urls)))) == 2
        assert objects(raygrove("sessions", "export", APP, "s1", "--user", user, *named(urls)))[0]["userId"] == user
    assert isinstance(raygrove("sessions", "show", APP, "s1", *named(urls)).exception, StoreError)


def test_what_changes_sessions_finds_them_in_all_stores(urls: list[str]) -> None:
    first, second = in_each_store(2)
    assert objects(raygrove("sessions", "delete", APP, "s1", "--user", second, "--json", *named(urls)))
    assert [each["userId"] for each in objects(raygrove("sessions", "list", APP, "--json", *named(urls)))] == [first]
    assert objects(raygrove("users", "delete", first, "--app", APP, "--json", *named(urls)))[0]["sessions"] == 1
    assert objects(raygrove("sessions", "list", APP, "--json", *named(urls))) == []


def test_a_user_is_moved_by_a_command(urls: list[str]) -> None:
    first, _ = in_each_store(2)
    move = ("users", "move", first, "--app", APP, *named(urls))
    moved = objects(raygrove(*move, "--to", urls[1], "--json"))[0]
    assert (moved["before"], moved["now"]) == (0, 1)
    assert raygrove(*move, "--to", urls[1]).output == f"{first} is there already\n"
    assert "was moved, with" in raygrove(*move, "--to", urls[0]).output
    assert len(objects(raygrove("sessions", "show", APP, "s1", "--user", first, "--json", *named(urls)))) == 2


def test_a_command_says_that_a_user_who_is_to_be_moved_has_no_data(urls: list[str]) -> None:
    unknown = users_at(0, 2, number=2)[1]
    move = ("users", "move", unknown, "--app", APP, *named(urls), "--to", urls[1])
    for _ in range(2):
        assert (
            raygrove(*move).output == f"there are no data of {unknown}: turns of this user begin in session store {urls[1]!r}\n"
        )
    assert [each["has_data"] for each in objects(raygrove(*move, "--json"))] == [False]


def test_a_part_of_the_stores_is_refused_where_all_are_meant(urls: list[str]) -> None:
    for command in (
        ("sessions", "list", APP),
        ("sessions", "show", APP, "s1"),
        ("store", "prune", "--app", APP, "--older-than", "1d"),
    ):
        result = raygrove(*command, "--store", urls[0])
        assert isinstance(result.exception, StoreError)
        assert "is the first of 2 stores of app 'test', and 1 is named" in str(result.exception)


def test_what_is_done_to_one_store_refuses_several(urls: list[str], tmp_path: Path) -> None:
    for command in ("backup", "export", "import"):
        result = raygrove("store", command, str(tmp_path / "file"), *named(urls))
        assert isinstance(result.exception, StoreError)
        assert "this command is for one store, and 2 are named: call it for each" in str(result.exception)


def test_copies_of_the_stores_are_a_list_as_they_were(urls: list[str], tmp_path: Path) -> None:
    for number, url in enumerate(urls):
        assert raygrove("store", "copy", url, f"sqlite:///{tmp_path}/copy-{number}.db").exception is None
        assert raygrove("store", "backup", f"{tmp_path}/backup-{number}.db", "--store", url).exception is None
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    for name in ("copy", "backup"):
        copies = [f"sqlite:///{tmp_path}/{name}-{number}.db" for number in range(2)]
        with pytest.raises(StoreError, match=f"{name}-1.db' is number 2 of the 2 stores"):
            deployed(root, tmp_path, copies[::-1]).start()
        with deployed(root, tmp_path, copies) as rt:
            assert {session.user_id for session in rt.sessions.list()} == set(in_each_store(2))


def deployed(root: LlmAgent, folder: Path, urls: list[str]) -> Runtime:
    return Deploy("local", folder)(root, session_store=urls)
