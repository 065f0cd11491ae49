"""Settings: names and values that are wrong are refused by name, and keys are shown to no one."""

from __future__ import annotations

import os
import pickle
import re
from typing import Any

import pytest

from actors.errors import DefinitionError
from actors.messages.config import Limits
from runtime import Settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("RAYGROVE_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("environment", "given", "message"),
    [
        (
            {"RAYGROVE_RUNNER": "7"},
            {},
            "RAYGROVE_RUNNER is no setting. Did you mean 'RAYGROVE_RUNNERS'?",
        ),
        ({"raygrove_runner": "7"}, {}, "the environment variable raygrove_runner is no setting."),
        ({"RAYGROVE_XYZ": "7"}, {}, "RAYGROVE_XYZ is no setting. docs/reference.md lists all of them."),
        ({"RAYGROVE_RUNNERS": "x"}, {}, "RAYGROVE_RUNNERS='x': Input should be a valid integer"),
        ({"RAYGROVE_RUNNERS": "0"}, {}, "RAYGROVE_RUNNERS='0': Input should be greater than 0"),
        ({"RAYGROVE_CORE_RESOURCES": "core"}, {}, """RAYGROVE_CORE_RESOURCES='core': it has to be JSON, such as {"core": 1}"""),
        ({"RAYGROVE_CORE_RESOURCES": '{"a": "b"}'}, {}, "RAYGROVE_CORE_RESOURCES['a']='b': Input should be a valid number"),
        ({"RAYGROVE_DIRECT_PORTS": "20000:20100"}, {}, "'20000:20100' is no range of ports: write it as '20000-20100'"),
        ({}, {"runner": 7}, "Settings: runner: there is no such setting. Did you mean 'runners'?"),
        ({}, {"runners": "x", "tool_threads": 0}, "Settings: runners='x': Input should be a valid integer"),
        ({}, {"runners": 1, "tool_threads": 0}, "Settings: tool_threads=0: Input should be greater than 0"),
        (
            {},
            {"model_limits": {"g": {"max_retries": -1}}},
            "Settings: model_limits['g']={'max_retries': -1}: ModelLimits: max_retries: Input should",
        ),
        ({}, {"env": ["NO_SUCH_KEY"]}, "Settings: env: NO_SUCH_KEY is not in the environment of this program"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], given: dict[str, Any], message: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DefinitionError, match=re.escape(message)):
        Settings(**given)


def test_names_of_tests_and_settings_in_any_case_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYGROVE_TEST_POSTGRES", "postgresql://")
    monkeypatch.setenv("raygrove_runners", "3")
    assert Settings().runners == 3


def test_keys_are_taken_from_the_environment_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", "sesame")
    monkeypatch.setenv("RAYGROVE_ENV", '["OWN_KEY"]')
    for settings in (Settings(), Settings(env=["OWN_KEY"]), Settings(env={"OWN_KEY": "sesame"})):
        assert settings.variables == {"OWN_KEY": "sesame"}
        assert "sesame" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    for wrong in ({"env": {"OWN_KEY": ["sesame"]}}, {"env": "sesame"}):
        with pytest.raises(DefinitionError) as refused:
            Settings(**wrong)
        assert "sesame" not in str(refused.value)
    monkeypatch.setenv("RAYGROVE_ENV", "sesame")
    with pytest.raises(DefinitionError, match=re.escape('RAYGROVE_ENV: it has to be JSON, such as ["OPENAI_API_KEY"]')):
        Settings()


def test_settings_that_an_older_release_has_pickled_have_the_defaults_of_what_it_did_not_know() -> None:
    older = Settings(runners=3)
    for name in ("standby_runners", "user_weights"):
        del older.__dict__[name]
    taken = pickle.loads(pickle.dumps(older))
    assert taken == Settings(runners=3)


def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().limits == Limits()
    monkeypatch.setenv("RAYGROVE_MAX_EVENT_BYTES", "70000")
    assert Settings().limits == Limits(max_event_bytes=70_000)
    with pytest.raises(ValueError, match="max_state_bytes"):
        Settings(max_state_bytes=1_000)
