"""Artifacts: versions, names that a user's sessions share, their entries in the log, and what models see of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import Blob, Content, LlmAgent, LlmRequest, Part, RunConfig, load_artifacts
from actors.errors import ArtifactError, InvalidIdError, StoreError
from actors.testing import ScriptedModel
from runtime import Runtime
from tests.support.agents.conversation_callbacks import annotate, archive_at_first
from tests.support.agents.conversation_tools import archive, request_counter
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

PNG = Blob(data=b"\x89PNG\x00", mime_type="image/png")


def root(*replies: object, **options: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel(list(replies)), **options)  # type: ignore[arg-type]


def text(rt: Runtime, name: str, version: int | None = None, session_id: str = "s1", user_id: str = "ada") -> str | None:
    part = rt.artifacts.load(user_id, session_id, name, version)
    return part.text if part is not None else None


def test_every_save_is_a_version_of_its_own(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        saved = [rt.artifacts.save("ada", "s1", "a/b.txt", Part(text=each)) for each in ("one", "two", "three")]
        assert saved == rt.artifacts.list_versions("ada", "s1", "a/b.txt") == [0, 1, 2]
        assert [text(rt, "a/b.txt", version) for version in (0, 1, None)] == ["one", "two", "three"]
        assert (text(rt, "a/b.txt", 3), text(rt, "missing")) == (None, None)
        assert rt.artifacts.list_versions("ada", "s1", "missing") == []


def test_data_comes_back_as_it_was_saved(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        rt.artifacts.save("ada", "s1", "a.png", Part(inline_data=PNG))
        assert rt.artifacts.load("ada", "s1", "a.png") == Part(inline_data=PNG)
        with pytest.raises(ArtifactError):
            rt.artifacts.save("ada", "s1", "nothing", Part())
        with pytest.raises(InvalidIdError):
            rt.artifacts.save("ada", "", "a.png", Part(inline_data=PNG))


def test_names_that_begin_with_user_are_shared_by_the_sessions_of_a_user(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        assert rt.artifacts.save("ada", "s1", "user:cv", Part(text="old")) == 0
        assert rt.artifacts.save("ada", "s2", "user:cv", Part(text="new")) == 1
        rt.artifacts.save("ada", "s1", "own", Part(text="mine"))
        assert text(rt, "user:cv") == text(rt, "user:cv", session_id="s2") == "new"
        assert rt.artifacts.list_keys("ada", "s1") == ["own", "user:cv"]
        assert rt.artifacts.list_keys("ada", "s2") == ["user:cv"]
        assert rt.artifacts.list_keys("bob", "s1") == []
        rt.artifacts.delete("ada", "s2", "user:cv")
        assert text(rt, "user:cv") is None


def test_what_is_deleted_is_gone_with_all_its_versions(deploy: Deploy) -> None:
    with deploy(root()) as rt:
        for each in ("one", "two"):
            rt.artifacts.save("ada", "s1", "a", Part(text=each))
        rt.artifacts.save("ada", "s1", "b", Part(text="stays"))
        rt.artifacts.delete("ada", "s1", "a")
        rt.artifacts.delete("ada", "s1", "a")
        assert rt.artifacts.list_keys("ada", "s1") == ["b"]
        assert (text(rt, "a", 0), rt.artifacts.list_versions("ada", "s1", "a")) == (None, [])
        assert rt.artifacts.save("ada", "s1", "a", Part(text="anew")) == 0


async def test_the_same_is_there_for_callers_on_an_event_loop(deploy: Deploy) -> None:
    async with deploy(root()) as rt:
        artifacts = rt.aio.artifacts
        assert [await artifacts.save("ada", "s1", "a", Part(text=each)) for each in ("one", "two")] == [0, 1]
        assert await artifacts.list_keys("ada", "s1") == ["a"]
        assert await artifacts.list_versions("ada", "s1", "a") == [0, 1]
        assert await artifacts.load("ada", "s1", "a", 0) == Part(text="one")
        await artifacts.delete("ada", "s1", "a")
        assert await artifacts.load("ada", "s1", "a") is None


@pytest.mark.parametrize("name", ["../../escape", "/etc/passwd", "..", "user:../../escape", "a\\..\\b", "C:\\x"])
def test_no_name_leaves_its_folder(tmp_path: Path, name: str) -> None:
    with Deploy("local", tmp_path)(root()) as rt:
        rt.artifacts.save("ada", "s1", name, Part(text="here"))
        assert text(rt, name) == "here"
        assert rt.artifacts.list_keys("ada", "s1") == [name]
        files = [path.relative_to(tmp_path / "artifacts") for path in tmp_path.rglob("0")]
        assert [path.parts[:2] for path in files] == [("test", "ada")]


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


def test_a_turn_that_is_asked_for_again_saves_its_blobs_once(deploy: Deploy) -> None:
    upload = Content(parts=[Part(text="see"), Part(inline_data=PNG)])
    config = RunConfig(save_input_blobs_as_artifacts=True)
    with deploy(root("seen")) as rt:
        for _ in range(3):
            events = run_turn(rt, upload, invocation_id="e-mine", run_config=config)
            assert author_texts(events) == [("root", "seen")]
        assert rt.artifacts.list_versions("ada", "s1", "artifact_e-mine_1") == [0]
        assert len(stored(rt)) == 2


def test_two_who_ask_for_the_same_turn_at_once_save_its_blobs_once(deploy: Deploy) -> None:
    upload = Content(parts=[Part(inline_data=PNG)])
    config = RunConfig(save_input_blobs_as_artifacts=True)
    with deploy(root("seen")) as rt:
        asked = {"user_id": "ada", "session_id": "s1", "message": upload, "invocation_id": "e-mine", "run_config": config}
        turns = [rt.run(**asked) for _ in range(5)]  # type: ignore[arg-type]
        assert [author_texts(list(turn.result().events)) for turn in turns] == [[("root", "seen")]] * 5
        assert rt.artifacts.list_versions("ada", "s1", "artifact_e-mine_0") == [0]
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
