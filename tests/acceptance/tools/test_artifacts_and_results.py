"""Artifacts of tools and users, and large or unusual results: what is kept, and what models see."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest

from actors import Blob, Content, LlmAgent, LlmRequest, Part, RunConfig, load_artifacts, tool
from actors.errors import ArtifactError, InvalidIdError, StoreError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.agents.conversation_callbacks import annotate, archive_at_first
from tests.support.agents.conversation_tools import archive, request_counter
from tests.support.runtimes import Deploy, author_texts, run_turn, saved_blob, stored
from tests.support.vectors.vector_agents import FailingArtifactStore

PNG = Blob(data=b"\x89PNG\x00", mime_type="image/png")


def root(*replies: object, **options: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel(list(replies)), **options)  # type: ignore[arg-type]


def text(rt: Runtime, name: str, version: int | None = None, session_id: str = "s1", user_id: str = "ada") -> str | None:
    part = rt.artifacts.load(user_id, session_id, name, version)
    return part.text if part is not None else None


def test_programs_keep_artifacts_by_name_and_version(deploy: Deploy) -> None:
    """What a store does with any names and versions is in tests/services/test_artifact_store.py."""
    with deploy(root()) as rt:
        saved = [rt.artifacts.save("ada", "s1", "a/b.txt", Part(text=each)) for each in ("one", "two", "three")]
        assert saved == rt.artifacts.list_versions("ada", "s1", "a/b.txt") == [0, 1, 2]
        assert [text(rt, "a/b.txt", version) for version in (0, 1, None, 3)] == ["one", "two", "three", None]
        rt.artifacts.save("ada", "s2", "user:a.png", Part(inline_data=PNG))
        assert rt.artifacts.load("ada", "s1", "user:a.png") == Part(inline_data=PNG)
        assert [rt.artifacts.list_keys(*of) for of in (("ada", "s1"), ("ada", "s2"), ("bob", "s1"))] == [
            ["a/b.txt", "user:a.png"],
            ["user:a.png"],
            [],
        ]
        rt.artifacts.delete("ada", "s1", "a/b.txt")
        assert (text(rt, "a/b.txt", 0), rt.artifacts.list_versions("ada", "s1", "a/b.txt")) == (None, [])
        with pytest.raises(ArtifactError):
            rt.artifacts.save("ada", "s1", "nothing", Part())
        with pytest.raises(InvalidIdError):
            rt.artifacts.save("ada", "", "a.png", Part(inline_data=PNG))


def test_a_tools_save_is_on_record_in_the_event_that_answers_the_call(deploy: Deploy) -> None:
    calls = [{"call": "archive", "args": {"name": name, "text": name}} for name in ("a", "user:b", "a")]
    with deploy(root({"parts": calls[:2]}, calls[2], "done", tools=[archive])) as rt:
        events = run_turn(rt, "keep this")
        deltas = [event.actions.artifact_delta for event in events]
        assert deltas == [{}, {"a": 0, "user:b": 0}, {}, {"a": 1}, {}]
        assert [event.actions.artifact_delta for event in stored(rt)[1:]] == deltas
        assert [each.response for event in events for each in event.function_responses()][2] == {"result": ["a", "user:b"]}
        assert text(rt, "user:b", session_id="another") == "user:b"


def test_a_callbacks_save_is_on_record_in_the_event_it_belongs_to(deploy: Deploy) -> None:
    agent = root("answer", before_agent_callback=archive_at_first, before_model_callback=annotate)
    with deploy(agent) as rt:
        run_turn(rt, "hi")
        assert [(event.text, event.actions.artifact_delta) for event in stored(rt)] == [
            ("hi", {}),
            ("", {"first": 0}),
            ("answer", {"note": 0}),
        ]


def test_a_save_that_fails_is_told_to_the_model_and_not_on_record(deploy: Deploy) -> None:
    with deploy(root({"call": "archive", "args": {"name": "", "text": "x"}}, "done", tools=[archive])) as rt:
        answer = run_turn(rt, "keep this")[1]
        assert "an artifact needs a name" in next(answer.function_responses()).response["error"]
        assert answer.actions.artifact_delta == {}


def test_a_turn_that_is_asked_for_again_or_at_once_saves_its_blobs_once(deploy: Deploy) -> None:
    upload = Content(parts=[Part(text="see"), Part(inline_data=PNG)])
    config = RunConfig(save_input_blobs_as_artifacts=True)
    with deploy(root("seen")) as rt:
        asked = {"user_id": "ada", "session_id": "s1", "message": upload, "invocation_id": "e-mine", "run_config": config}
        for _ in range(2):
            turns = [rt.run(**asked) for _ in range(5)]  # type: ignore[arg-type]
            assert [author_texts(list(turn.result().events)) for turn in turns] == [[("root", "seen")]] * 5
        assert rt.artifacts.list_versions("ada", "s1", "artifact_e-mine_1") == [0]
        assert len(stored(rt)) == 2


def loads(*names: str) -> dict[str, object]:
    return {"call": "load_artifacts", "args": {"artifact_names": list(names)}}


def listed(request: LlmRequest) -> list[str]:
    """The artifacts that the system instruction tells of."""
    return [line.removeprefix("- ") for line in request.system_instruction.splitlines() if line.startswith("- ")]


def test_the_model_is_told_which_artifacts_there_are(deploy: Deploy) -> None:
    model = ScriptedModel(["none", "two"])
    with deploy(LlmAgent(name="root", model=model, tools=[load_artifacts], instruction="Help.")) as rt:
        run_turn(rt, "hi")
        rt.artifacts.save("ada", "s1", "a.txt", Part(text="A"))
        rt.artifacts.save("ada", "other", "user:b.txt", Part(text="B"))
        run_turn(rt, "and now?")
        without, given = model.requests
        assert (listed(without), "artifacts" in without.system_instruction) == ([], False)
        assert listed(given) == ["a.txt", "user:b.txt"]
        assert given.system_instruction.startswith("Help.\n\n")


def test_what_the_model_asks_for_it_sees_in_the_next_request_alone(deploy: Deploy) -> None:
    model = ScriptedModel([loads("a.txt", "p.png", "c.csv"), "thanks", "again"])
    with deploy(LlmAgent(name="root", model=model, tools=[load_artifacts])) as rt:
        rt.artifacts.save("ada", "s1", "a.txt", Part(text="buy milk"))
        rt.artifacts.save("ada", "s1", "p.png", Part(inline_data=PNG))
        rt.artifacts.save("ada", "s1", "c.csv", Part(inline_data=Blob(data="x;ü".encode(), mime_type="text/csv; charset=utf-8")))
        events = run_turn(rt, "what is in them?")
        response = next(events[1].function_responses())
        assert response.response == {"artifact_names": ["a.txt", "p.png", "c.csv"]}
        run_turn(rt, "sure?")
        _, asked, later = model.requests
        assert [[each.name for each in content.function_responses()] for content in asked.contents[-2:]] == [
            ["load_artifacts"],
            [],
        ]
        assert asked.contents[-1] == Content(
            role="user",
            parts=[
                Part(text='Artifact "a.txt":'),
                Part(text="buy milk"),
                Part(text='Artifact "p.png":'),
                Part(inline_data=PNG),
                Part(text='Artifact "c.csv":'),
                Part(text="x;ü"),
            ],
        )
        assert [content.text for content in later.contents] == ["what is in them?", "", "", "thanks", "sure?"]
        assert "milk" not in "".join(event.to_json() for event in stored(rt))


def test_an_artifact_that_is_not_there_is_told_with_those_that_are(deploy: Deploy) -> None:
    model = ScriptedModel([{"parts": [loads("a.txt", "b.txt"), loads("a.txt")]}, loads("c.txt"), "sorry"])
    with deploy(LlmAgent(name="root", model=model, tools=[load_artifacts])) as rt:
        rt.artifacts.save("ada", "s1", "a.txt", Part(text="A"))
        events = run_turn(rt, "show")
        answers = [each.response for event in events for each in event.function_responses()]
        missing = {"missing": ["b.txt"], "available": ["a.txt"]}
        assert answers[0] == {"artifact_names": ["a.txt"], **missing}
        assert answers[2]["missing"] == ["c.txt"]
        assert [part.text for part in model.requests[1].contents[-1].parts] == ['Artifact "a.txt":', "A"]
        assert list(model.requests[2].contents[-1].function_responses())


def test_a_tool_may_change_every_request_and_write_state(deploy: Deploy) -> None:
    model = ScriptedModel(["one", "two"])
    with deploy(LlmAgent(name="root", model=model, tools=[request_counter])) as rt:
        run_turn(rt, "a")
        run_turn(rt, "b")
        assert [request.contents[-1].text for request in model.requests] == ["request 1", "request 2"]
        assert [event.actions.state_delta for event in stored(rt)] == [{}, {"requests": 1}, {}, {"requests": 2}]


def test_artifacts_on_a_broken_store_fail_the_run_and_the_next_one_works(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(root("ok", tools=[load_artifacts])) as rt:
        rt.artifacts.save("ada", "s1", "a" * 300, Part(text="A"))
        (version,) = [path for path in (tmp_path / "artifacts").rglob("0") if path.is_file()]
        version.write_bytes(b"nonsense")
        with pytest.raises(StoreError, match="holds no version"):
            run_turn(rt, "hi")
        version.unlink()
        assert run_turn(rt, "again")[-1].text == "ok"


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
        assert saved_blob(rt, name).data.decode() == whole
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
