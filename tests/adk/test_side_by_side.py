"""How ADK's programs are compared that both sides have played: python -m tests.adk.side_by_side."""

from __future__ import annotations

from typing import Any

from tests.adk.side_by_side.compared import verdict
from tests.adk.side_by_side.player import value_for


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
