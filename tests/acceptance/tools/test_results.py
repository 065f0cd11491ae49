"""What a model gets of results that are no JSON, or that are too large for it."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent, load_artifacts, tool
from actors.testing import ScriptedModel
from runtime import Settings
from tests.support.runtimes import Deploy, run_turn
from tests.support.vectors.vector_agents import FailingArtifactStore

LIMIT = 64 * 1024

NARROW = Settings(max_result_bytes=LIMIT)


@tool
def read(lines: int) -> str:
    """Read many lines."""
    return "\n".join(f"line {number}" for number in range(lines))


@tool
def rows(number: int) -> Any:
    """Read many rows."""
    return {"rows": [{"number": each, "where": Path("/tmp") / str(each)} for each in range(number)]}


def reader(*replies: Any, **options: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel(list(replies)), tools=[read, rows, load_artifacts], **options)


def result_of(events: list[Any], name: str) -> dict[str, Any]:
    return next(each.response for event in events for each in event.function_responses() if each.name == name)


def test_a_large_result_is_an_artifact_of_which_the_model_gets_the_beginning_the_end_and_the_name(deploy: Deploy) -> None:
    call = {"call": "read", "id": "c1", "args": {"lines": 50_000}}
    load = {"call": "load_artifacts", "args": {"artifact_names": ["read_c1.txt"]}}
    agent = reader(call, load, "done", {"call": "read", "args": {"lines": 3}}, "done")
    with deploy(agent, settings=NARROW) as rt:
        events = run_turn(rt, "go")
        assert events[-1].text == "done"
        given = result_of(events, "read")
        whole = read(lines=50_000)
        name = given["artifact"]
        beginning, end = given["result"].split("\n[… ")[0], given["result"].split(" …]\n")[1]
        assert whole.startswith(beginning)
        assert whole.endswith(end)
        assert len(beginning) == 3 * len(end) == 3 * LIMIT // 64
        assert f"{len(whole)} characters are left out" in given["result"]
        assert given["shortened"] == (
            f"This result of {len(whole)} bytes is too large to be shown: the artifact {name!r} has the whole. Here are its "
            "beginning and its end."
        )
        saved = rt.artifacts.load("ada", "s1", name)
        assert saved is not None
        assert saved.inline_data is not None
        assert saved.inline_data.data.decode() == whole
        assert events[1].actions.artifact_delta == {name: 0}
        assert result_of(events, "load_artifacts") == {"artifact_names": [name]}
        assert result_of(run_turn(rt, "more"), "read") == {"result": "line 0\nline 1\nline 2"}


def test_of_an_artifact_that_no_request_could_hold_the_model_is_shown_the_beginning_and_the_end(local: Deploy) -> None:
    load = {"call": "load_artifacts", "args": {"artifact_names": ["read_c1.txt"]}}
    model = ScriptedModel([{"call": "read", "id": "c1", "args": {"lines": 500_000}}, load, "done"])
    with local(LlmAgent(name="root", model=model, tools=[read, load_artifacts])) as rt:
        run_turn(rt, "go")
    shown = model.requests[2].contents[-1].parts[1].text
    assert shown is not None
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 499999")
    assert "characters are left out" in shown
    assert 256 * 1024 < len(shown) < 257 * 1024


def test_a_large_result_that_is_no_text_is_kept_as_json(local: Deploy) -> None:
    with local(reader({"call": "rows", "id": "c1", "args": {"number": 9_000}}, "done"), settings=NARROW) as rt:
        given = result_of(run_turn(rt, "go"), "rows")
        saved = rt.artifacts.load("ada", "s1", "rows_c1.json")
    assert given["artifact"] == "rows_c1.json"
    assert given["result"].startswith('{"rows":[{"number":0,"where":"/tmp/0"}')
    assert given["result"].endswith('{"number":8999,"where":"/tmp/8999"}]}')
    assert saved is not None
    assert saved.inline_data is not None
    assert saved.inline_data.mime_type == "application/json"


def test_without_a_store_that_takes_it_a_large_result_is_shortened_and_says_so(local: Deploy, caplog: Any) -> None:
    agent = reader({"call": "read", "args": {"lines": 50_000}}, "done")
    with local(agent, settings=NARROW, artifact_store=FailingArtifactStore()) as rt:
        events = run_turn(rt, "go")
    given = result_of(events, "read")
    assert (list(given), events[-1].text) == (["shortened", "result"], "done")
    assert "could not be saved as an artifact" in given["shortened"]


@pytest.mark.parametrize("limit", [0, 1_000_000])
def test_the_limit_is_a_setting(local: Deploy, limit: int) -> None:
    with local(reader({"call": "read", "args": {"lines": 50_000}}, "done"), settings=Settings(max_result_bytes=limit)) as rt:
        assert list(result_of(run_turn(rt, "go"), "read")) == ["result"]


def test_a_result_that_json_does_not_know_is_given_as_json_with_one_line_in_the_log(
    deploy: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def measure() -> Any:
        """Measure."""
        return {"at": Path("/dev/x"), "values": range(2), "mean": math.nan, "worst": -math.inf, (1, 2): {3: deep()}}

    def deep() -> Any:
        return (each for each in "ab")

    with deploy(LlmAgent(name="root", model=ScriptedModel([{"call": "measure"}, "done"]), tools=[measure])) as rt:
        events = run_turn(rt, "go")
    assert result_of(events, "measure") == {
        "at": "/dev/x",
        "values": [0, 1],
        "mean": None,
        "worst": None,
        "(1, 2)": {"3": ["a", "b"]},
    }
    if deploy.engine == "local":
        [line] = [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert line.getMessage() == (
            "the result of tool 'measure' of agent 'root' is not stored as it was: nan has become null; -inf has become null"
        )
