"""Planners, static instructions and output types: what the model is asked, and what is made of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, cast

import pytest
from google.genai import types
from pydantic import BaseModel
from typing_extensions import TypedDict

from actors import (
    AgentTool,
    BasePlanner,
    BuiltInPlanner,
    CallbackContext,
    Content,
    FunctionCall,
    LlmAgent,
    LlmRequest,
    Part,
    PlanReActPlanner,
    ReadonlyContext,
    RunConfig,
    SequentialAgent,
    tool,
)
from actors.errors import DefinitionError, OutputSchemaError
from actors.testing import ScriptedModel
from runtime.models.gemini import Gemini
from tests.support.runtimes import Deploy, run_turn, stored_state
from tests.support.servers.gemini_server import GeminiServer, text

SSE = RunConfig(streaming="sse")


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


def test_the_built_in_planner_turns_on_the_models_thinking(local: Deploy) -> None:
    planner = BuiltInPlanner(thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=512))
    with GeminiServer([text("hi")]) as server:
        model = Gemini(model="gemini-2.5-flash", api_key="k", base_url=server.url)
        root = LlmAgent(name="root", model=model, planner=planner, generate_content_config={"temperature": 0.5})
        with local(root) as rt:
            run_turn(rt, "hi")
        assert server.requests[0].body["generationConfig"] == {
            "temperature": 0.5,
            # The SDK leaves the names inside as they are in Python; the service takes both.
            "thinkingConfig": {"include_thoughts": True, "thinking_budget": 512},
        }


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: BuiltInPlanner(thinking_config=3), "thinking_config must be a ThinkingConfig or a dictionary"),
        (lambda: LlmAgent(name="a", planner=cast(Any, 3)), "planner: Input should be an instance of BasePlanner"),
    ],
)
def test_what_is_no_planner_is_refused(make: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        make()


def thoughts_and_texts(content: Content | None) -> list[tuple[str, bool]]:
    return [(part.text, bool(part.thought)) for part in content.parts if part.text] if content is not None else []


CALLS = Content(
    role="model",
    parts=[
        Part(text="/*PLANNING*/\n1. Look it up.\n/*ACTION*/"),
        Part(function_call=FunctionCall(name="look_up", args={"order": "42"})),
        Part(text="and then more"),
    ],
)


def test_plans_are_thoughts_and_the_final_answer_is_the_answer(deploy: Deploy) -> None:
    model = ScriptedModel([CALLS, "/*REASONING*/ It is late. /*FINAL_ANSWER*/ Order 42 is late.", "Plainly said."])
    root = LlmAgent(name="root", model=model, planner=PlanReActPlanner(), tools=[look_up], output_key="answer")
    with deploy(root) as rt:
        called, _, answered = run_turn(rt, "Where is 42?")
        assert thoughts_and_texts(called.content) == [("1. Look it up.", True)]
        assert len(list(called.function_calls())) == 1
        assert thoughts_and_texts(answered.content) == [("It is late.", True), ("Order 42 is late.", False)]
        assert answered.text == "Order 42 is late."
        assert stored_state(rt) == {"answer": "Order 42 is late."}
        assert thoughts_and_texts(run_turn(rt, "Sure?")[-1].content) == [("Plainly said.", False)]
    assert all("/*FINAL_ANSWER*/" in request.system_instruction for request in model.requests)
    # The model sees its plans as it wrote them, for what is marked as a thought is left out by services.
    assert thoughts_and_texts(model.requests[1].contents[1]) == [("1. Look it up.", False)]


def test_streamed_plans_are_thoughts_too_and_show_no_tags(local: Deploy) -> None:
    pieces = ["/*PLAN", "NING*/ 1. Ans", "wer./", " /*FINAL_ANS", "WER*/Hel", "lo"]
    model = ScriptedModel([{"stream": pieces}, {"stream": ["Plain", " text"]}])
    with local(LlmAgent(name="root", model=model, planner=PlanReActPlanner())) as rt:
        *partial, whole = run_turn(rt, "hi", run_config=SSE)
        shown = [each for event in partial for each in thoughts_and_texts(event.content)]
        assert "".join(each for each, is_thought in shown if is_thought).strip() == "1. Answer./"
        assert "".join(each for each, is_thought in shown if not is_thought) == "Hello"
        assert thoughts_and_texts(whole.content) == [("1. Answer./", True), ("Hello", False)]
        *partial, whole = run_turn(rt, "hi", run_config=SSE)
        assert [event.text for event in partial] == ["Plain", " text"]


class Shouting(BasePlanner):
    """A planner of a user's own, written for ADK's types."""

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        return f"{readonly_context.agent_name} shouts."

    def process_planning_response(self, callback_context: CallbackContext, response_parts: list[Part]) -> Any:
        callback_context.state["shouted"] = True
        return [types.Part(text=(part.text or "").upper()) for part in response_parts]


def test_a_planner_of_ones_own(local: Deploy) -> None:
    model = ScriptedModel(["hello"])
    with local(LlmAgent(name="root", model=model, planner=Shouting())) as rt:
        assert run_turn(rt, "hi")[-1].text == "HELLO"
        assert stored_state(rt) == {"shouted": True}
    assert model.requests[0].system_instruction.endswith("root shouts.")


def test_a_static_instruction_follows_the_global_one_and_the_other_goes_before_the_message(local: Deploy) -> None:
    model = ScriptedModel([{"call": "look_up", "args": {"order": "42"}}, "It is late.", "Yes."])
    root = LlmAgent(
        name="root",
        model=model,
        global_instruction="Be kind.",
        static_instruction=types.Content(parts=[types.Part(text="You sell {tea}.")]),
        instruction="The user is {user:name}.",
        tools=[look_up],
    )
    with local(root) as rt:
        run_turn(rt, "Where is 42?", state_delta={"user:name": "Ada"})
        run_turn(rt, "Sure?")
        session = rt.sessions.get("ada", "s1")
        assert session is not None
        assert "<instruction>" not in "".join(event.text for event in session.events)
    first, second, third = model.requests
    assert first.system_instruction == second.system_instruction == third.system_instruction
    assert first.system_instruction.startswith("Be kind.\n\nYou sell {tea}.\n\n")
    assert "Ada" not in first.system_instruction
    texts = [
        ["Ada" if "The user is Ada." in content.text else content.text for content in each.contents] for each in model.requests
    ]
    assert texts == [
        ["Ada", "Where is 42?"],
        ["Where is 42?", "", "", "Ada"],
        ["Where is 42?", "", "", "It is late.", "Ada", "Sure?"],
    ]


def test_a_static_instruction_of_data_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"static_instruction: .*a system instruction must be a text"):
        LlmAgent(name="a", static_instruction=Content(parts=[Part(text=None)]))


class Item(BaseModel):
    name: str
    price: float | None = None


@dataclass
class Place:
    name: str
    opened: date


class Order(TypedDict):
    number: int
    items: list[str]


JSON_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}

KINDS: dict[str, tuple[Any, str, Any, str]] = {
    "model": (Item, '{"name": "tea"}', {"name": "tea"}, "object"),
    "models": (list[Item], '[{"name": "tea", "price": 2}]', [{"name": "tea", "price": 2.0}], "array"),
    "data": (Place, '{"name": "Rome", "opened": "2026-01-02"}', {"name": "Rome", "opened": "2026-01-02"}, "object"),
    "typed": (Order, '{"number": 7, "items": ["tea"]}', {"number": 7, "items": ["tea"]}, "object"),
    "any": (dict, '{"a": [1, null]}', {"a": [1, None]}, "object"),
    "text": (str, '"quoted"', "quoted", "string"),
    "bare": (str, "not quoted", "not quoted", "string"),
    "number": (int, "42", 42, "integer"),
    "fenced": (Item, '```json\n{"name": "tea"}\n```', {"name": "tea"}, "object"),
    "schema": (JSON_SCHEMA, '{"a": 1}', {"a": 1}, "object"),
}


def test_an_answer_of_any_type_is_asked_for_and_stored_as_plain_data(deploy: Deploy) -> None:
    model = ScriptedModel([answer for _, answer, _, _ in KINDS.values()])
    agents = [LlmAgent(name=kind, model=model, output_schema=KINDS[kind][0], output_key=kind) for kind in KINDS]
    with deploy(SequentialAgent(name="all", sub_agents=agents)) as rt:
        run_turn(rt, "go")
        assert stored_state(rt) == {kind: stored for kind, (_, _, stored, _) in KINDS.items()}
        asked = [request.output_schema or {} for request in model.requests]
        assert [schema["type"] for schema in asked] == [kind for _, _, _, kind in KINDS.values()]
        assert asked[0] == Item.model_json_schema()


def test_the_result_of_an_agent_as_a_tool_has_its_type(local: Deploy) -> None:
    expert = LlmAgent(name="expert", model=ScriptedModel(['[{"name": "tea"}]', "[1]"]), output_schema=list[Item])
    calls = {"call": "expert", "args": {"request": "which?"}}
    root = LlmAgent(name="root", model=ScriptedModel([calls, calls, "done"]), tools=[AgentTool(expert)])
    with local(root) as rt:
        answered = [response.response for event in run_turn(rt, "go") for response in event.function_responses()]
        assert answered[0] == {"result": [{"name": "tea"}]}
        assert "does not fit its output_schema: 0: Input should be" in answered[1]["error"]


@pytest.mark.parametrize(
    ("kind", "answer", "told"),
    [
        (list[Item], '[{"name": 1}]', "0.name: Input should be a valid string"),
        (int, "many", "Invalid JSON"),
        (Order, '{"number": 7}', "items: Field required"),
        (JSON_SCHEMA, "many", "it is no JSON"),
    ],
)
def test_an_answer_that_does_not_fit_is_named(local: Deploy, kind: Any, answer: str, told: str) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([answer]), output_schema=kind)
    with local(root) as rt, pytest.raises(OutputSchemaError, match=told):
        run_turn(rt, "go")


@pytest.mark.parametrize("kind", [Item(name="tea"), "Item", 3])
def test_what_is_no_type_is_refused(kind: Any) -> None:
    with pytest.raises(DefinitionError, match=r"output_schema: .*must be a pydantic model, or another type"):
        LlmAgent(name="root", output_schema=kind)
