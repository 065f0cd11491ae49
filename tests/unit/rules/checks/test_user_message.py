"""Answers of the user in the form that was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Content, FunctionResponse, Part
from actors.rules.checks.user_message import fitted, flaw, misfit, shapeless

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
PLAIN = st.fixed_dictionaries({}, optional={"type": TYPES, "default": SCALARS})
SCHEMAS = st.recursive(
    PLAIN,
    lambda inner: st.fixed_dictionaries(
        {}, optional={"type": TYPES, "properties": st.dictionaries(st.text(), inner), "items": inner, "default": SCALARS}
    ),
    max_leaves=6,
)


@given(VALUES, SCHEMAS)
def test_what_is_fitted_once_stays_as_it_is(value: Any, schema: dict[str, Any]) -> None:
    once = fitted(value, schema)
    assert fitted(once, schema) == once


@given(VALUES, SCHEMAS)
def test_what_fits_is_fitted_to_something_that_fits(value: Any, schema: dict[str, Any]) -> None:
    if flaw(value, schema) is None:
        assert flaw(fitted(value, schema), schema) is None


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        ("3", "integer", 3),
        ("3.5", "number", 3.5),
        ("3.5", "integer", "3.5"),
        ("true", "boolean", True),
        ("1", "boolean", "1"),
        ("yes", "boolean", "yes"),
        ("3", "string", "3"),
        (3, "string", 3),
    ],
)
def test_texts_are_read_where_another_type_is_asked_for(value: Any, kind: str, found: Any) -> None:
    read = fitted(value, {"type": kind})
    assert (type(read), read) == (type(found), found)


def test_defaults_stand_for_what_is_missing_also_deep_inside() -> None:
    item = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string", "default": None}}}
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    assert fitted({"items": [{"x": "1"}, {"x": 2, "y": "b"}]}, schema) == {"items": [{"x": 1, "y": None}, {"x": 2, "y": "b"}]}


def answer(value: Any, text: str | None = None) -> Content:
    parts = [Part(function_response=FunctionResponse(id="q", name="adk_request_input", response={"result": value}))]
    return Content(role="user", parts=[*parts, *([Part(text=text)] if text is not None else [])])


@pytest.mark.parametrize(
    ("given", "asked", "found"),
    [
        (answer("7"), {"response_schema": {"type": "integer"}}, None),
        (answer("many"), {"response_schema": {"type": "integer"}}, "of type integer"),
        (answer("many"), {}, None),
        (answer("many"), {"response_schema": None}, None),
        (answer("many", "please"), {}, "has a text"),
        (answer("many", ""), {}, None),
    ],
)
def test_a_message_is_an_answer_if_it_fits_and_stands_alone(given: Content, asked: dict[str, Any], found: str | None) -> None:
    wrong = misfit(given, {"q": asked})
    assert (wrong is None) if found is None else found in (wrong or "")
    # Of calls that no node has made it says nothing.
    assert misfit(given, {}) is None


@pytest.mark.parametrize(
    ("words", "schema", "found"),
    [
        ('{"x": "one"}', {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}, None),
        ("{}", {"type": "object", "required": ["x"]}, "it lacks 'x'"),
        ("[]", {"type": "object"}, "it is not of type object"),
        ("nope", {"type": "array"}, "it is not of type array"),
        ("nope", {"type": "integer"}, None),
        ("nope", {"anyOf": [{"type": "object"}]}, None),
    ],
)
def test_of_words_only_the_outermost_form_is_looked_at(words: str, schema: dict[str, Any], found: str | None) -> None:
    assert shapeless(words, schema) == found
