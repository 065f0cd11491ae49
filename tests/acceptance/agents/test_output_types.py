"""`output_schema`: which types an answer may have, how models are asked for them, and what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from actors import AgentTool, LlmAgent, SequentialAgent
from actors.errors import DefinitionError, OutputSchemaError
from actors.testing import ScriptedModel
from tests.support.runtimes import Deploy, run_turn, stored_state


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
