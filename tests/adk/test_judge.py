"""How the judge and the players of ADK's programs compare: tests of somebody else by a Runtime, and programs by both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adk.judge.__main__ import MODES, files, run
from tests.adk.judge.verdicts import Expected, Kind, judged, load_expected, table
from tests.adk.side_by_side.compared import verdict
from tests.adk.side_by_side.player import value_for

THEIRS = """
import pytest
from google.adk.agents import LlmAgent
from google.adk.events.request_input import RequestInput
from google.adk.artifacts import InMemoryArtifactService
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import Workflow
from google.genai import types


class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        said = [part.function_response for content in llm_request.contents for part in content.parts if part.function_response]
        call = types.Part(function_call=types.FunctionCall(name="look", args={}))
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="seen") if said else call]))


async def look(tool_context):
    await tool_context.save_artifact("note", types.Part(text="a note"))
    tool_context.state["looked"] = True
    return {}


async def events(root, **state):
    runner = InMemoryRunner(root, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u", state=state)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    found = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    return runner, found, await runner.session_service.get_session(app_name="app", user_id="u", session_id=session.id)


async def test_an_agent():
    runner, found, session = await events(LlmAgent(name="root", model=Model(model="m"), tools=[look]), given=1)
    assert [event.author for event in session.events] == ["user", "root", "root", "root"]
    assert found == session.events[1:]
    assert session.state == {"given": 1, "looked": True}
    assert await runner.artifact_service.list_artifact_keys(app_name="app", user_id="u", session_id=session.id) == ["note"]


def answer(node_input):
    return "done"


async def test_a_graph():
    _, found, _ = await events(Workflow(name="graph", edges=[("START", answer)]))
    assert found


def ask():
    return RequestInput(interrupt_id="size", response_schema=int)


async def test_a_refusal():
    runner, _, session = await events(Workflow(name="graph", edges=[("START", ask)]))
    answer = types.FunctionResponse(id="size", name="adk_request_input", response={"result": "many"})
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    with pytest.raises(ValueError, match="Validation failed for interrupt"):
        await anext(aiter(runner.run_async(user_id="u", session_id=session.id, new_message=message)))


async def test_consent():
    tool = FunctionTool(look, require_confirmation=True)
    _, found, _ = await events(LlmAgent(name="root", model=Model(model="m"), tools=[tool]))
    assert [call.name for event in found for call in event.get_function_calls()] == ["look", "adk_request_confirmation"]


async def test_the_branch_of_a_root():
    _, found, _ = await events(LlmAgent(name="root", model=Model(model="m"), tools=[look]))
    assert found[0].custom_metadata is not None, "not so in any"


def test_without_a_runner():
    pass
"""


# Three processes import google-adk, one after the other, and a test of each may take a minute.
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
def test_turns_run_by_a_runtime_and_each_test_gets_a_verdict(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "test_theirs.py").write_text(THEIRS)
    (folder / "test_others.py").write_text("def test_nothing():\n    pass\n")
    given = list(files(folder, ""))
    assert [path.name for path in given] == ["test_theirs.py"]
    found = {mode: run(folder, given, mode) for mode in MODES}
    assert {name.partition("::")[2]: note["outcome"] for name, note in found["plain"].items()} == {
        "test_an_agent": "passed",
        "test_a_graph": "passed",
        "test_a_refusal": "passed",
        "test_consent": "passed",
        "test_the_branch_of_a_root": "failed",
        "test_without_a_runner": "passed",
    }
    by_mode = {}
    for mode in MODES[1:]:
        verdicts = list(judged(found["plain"], found[mode], mode, {}))
        by_mode[mode] = {verdict.test.partition("::")[2]: verdict.kind for verdict in verdicts}
    passing = dict.fromkeys(("test_an_agent", "test_a_graph", "test_a_refusal", "test_consent"), Kind.PASSED)
    assert by_mode == {"root": passing, "islands": passing}
    stale = {"test_theirs.py::test_an_agent": Expected(Kind.DECIDED, "it never did", ("root",))}
    verdicts = list(judged(found["plain"], found["root"], "root", stale))
    assert [verdict.kind for verdict in verdicts if verdict.why == "it never did"] == [Kind.STALE]
    assert table(found["plain"], verdicts).startswith("6 tests, 5 pass with ADK, 4 of these go through a Runner:")


def test_each_expected_failure_has_a_reason() -> None:
    assert all(expected.why.endswith(".") for expected in load_expected().values())


def told(*events: dict[str, Any], error: str = "") -> dict[str, Any]:
    return {"refused": "", "islands": "", "sessions": [{"turns": [{"events": list(events), "error": error}], "state": {}}]}


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"author": "a", "parts": [{"text": text}], **fields}


def test_what_is_said_in_another_way_is_a_difference() -> None:
    assert verdict(told(said("a"), said("b")), told(said("a"), said("b")))[0] == "equal"
    assert verdict(told(said("a"), said("b")), told(said("b"), said("a")))[0] == "equal but for the order"
    assert verdict(told(said("a")), told(said("b")))[0] == "differs"
    assert verdict(told(said("a")), told(said("a"), said("b")))[0] == "differs"
    assert verdict(told(said("a")), told(said("a"), error="ValueError: x"))[0] == "differs"


def test_what_only_adk_says_is_left_out() -> None:
    answer = {"author": "a", "parts": [{"function_call": {"name": "set_model_response", "args": {}}}]}
    assert verdict(told(answer, said("a", path="a@1"), {"author": "a"}), told(said("a")))[0] == "equal"


def test_a_tool_that_raises_ends_the_turn_of_adk_only() -> None:
    failed = told(said("a"), {"author": "a", "error": "KeyError"}, error="KeyError: 'x'")
    assert verdict(failed, told(said("a"), said("b"))) == ("equal until a tool raises", "KeyError: 'x'")
    assert verdict(failed, told(said("c"), said("b")))[0] == "differs"


def test_a_value_fits_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/N"}, "of": {"enum": ["x", "y"]}, "not": {"type": "string"}},
        "required": ["n", "of"],
        "$defs": {"N": {"type": "array", "items": {"type": "integer", "minimum": 3}}},
    }
    assert value_for(schema, 1) == {"n": [3], "of": "x"}
