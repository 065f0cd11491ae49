"""The type decides how a text is read: the words of a user, and the answer of a model."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from actors.definitions.schemas import output_type


class Point(BaseModel):
    x: int


class Colour(StrEnum):
    RED = "red"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.text() | JSON.map(json.dumps)


@given(WORDS, st.sampled_from([str, str | None, Annotated[str, Field(description="Words.")]]))
def test_a_type_that_takes_a_text_gets_the_words_of_the_user_as_they_are(words: str, kind: Any) -> None:
    assert output_type(kind).of_user(words) == words


@pytest.mark.parametrize(
    ("kind", "words", "expected"),
    [
        (int, "5", 5),
        (dict, '{"a": 1}', {"a": 1}),
        (Point, '{"x": 1}', {"x": 1}),
        (str | int, "5", 5),
        (Any, "5", 5),
        (Any, "five", "five"),
        (Literal["red"], "red", "red"),
        (Literal["red"], '"red"', "red"),
        (Colour, "red", "red"),
        (Colour, '"red"', "red"),
    ],
)
def test_any_other_type_gets_them_as_json_if_they_are_json(kind: Any, words: str, expected: Any) -> None:
    assert output_type(kind).of_user(words) == expected


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValidationError, match="at least 3 characters"):
        output_type(Annotated[str, Field(min_length=3)]).of_user("no")
    with pytest.raises(ValueError, match="at least 3 characters"):
        output_type(Annotated[str, Field(min_length=3)]).value_of("no")


@given(
    JSON,
    st.sampled_from(["", "json", "JSON", "json \t"]),
    st.sampled_from(["\n", "\n\n", " \n"]),
    st.sampled_from(["", " ", "\n"]),
)
def test_one_fence_around_an_answer_is_taken_off(value: Any, language: str, before: str, around: str) -> None:
    fenced = f"{around}```{language}{before}{json.dumps(value)}\n```{around}"
    assert output_type(Any).value_of(fenced) == value


@pytest.mark.parametrize(
    "answer", ['Here it is:\n```json\n{"x": 1}\n```', '```json\n{"x": 1}', "```", "``````", "````json\n1\n````"]
)
def test_other_fences_stay_and_are_no_json(answer: str) -> None:
    for kind in (Point, {"type": "object"}):
        with pytest.raises(ValueError, match="JSON"):
            output_type(kind).value_of(answer)


@given(st.text(alphabet="`js on\n1", max_size=12))
def test_a_text_keeps_its_fence(answer: str) -> None:
    try:
        expected = json.loads(answer)
    except ValueError:
        expected = answer
    assert output_type(str).value_of(answer) == (expected if isinstance(expected, str) else answer)
