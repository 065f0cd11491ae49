from __future__ import annotations

import pytest

from actors.errors import InvalidIdError, InvalidMessageError, NotEncodableError
from runtime.driver.scripts.inputs import InputReader, MapInput


def read(*given: object, name: str = "m") -> list[MapInput]:
    reader = InputReader(name, "ada")
    return [reader.read(index, each) for index, each in enumerate(given)]


def test_the_id_comes_from_the_name_and_from_what_the_input_says_not_from_its_place() -> None:
    first, second = read("a", "b")
    other_way, *_ = read("b", "a")
    assert second.invocation_id == other_way.invocation_id
    assert first.invocation_id != second.invocation_id
    assert read("a", name="n")[0].invocation_id == "n-" + first.invocation_id.removeprefix("m-")
    # Stored with the turns of earlier runs, so it must never change.
    assert first.invocation_id == "m-2f761a32dc274919228dcc11"


def test_all_that_an_input_says_counts_and_the_order_of_keys_does_not() -> None:
    base = {"message": "a", "state_delta": {"x": 1, "y": 2}}
    ids = [
        each.invocation_id
        for each in read(
            base,
            {**base, "state_delta": {"x": 1}},
            {**base, "user_id": "bob"},
            {**base, "session_id": "s"},
            {**base, "message": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}},
        )
    ]
    assert len(set(ids)) == 5
    assert read({"state_delta": {"y": 2, "x": 1}, "message": "a"})[0].invocation_id == ids[0]


def test_equal_inputs_are_told_apart_by_their_count() -> None:
    ids = [each.invocation_id for each in read("a", "b", "a", "a")]
    assert ids[2:] == [f"{ids[0]}-2", f"{ids[0]}-3"]


def test_attempts_are_turns_in_sessions_of_their_own_unless_the_input_names_one() -> None:
    own, given = read("a", {"message": "a", "session_id": "s", "invocation_id": "order-1"})
    assert own.ids(1) == (own.invocation_id, own.invocation_id)
    assert own.ids(2) == (f"{own.invocation_id}/2",) * 2
    assert [given.ids(attempt) for attempt in (1, 3)] == [("s", "order-1"), ("s", "order-1/3")]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"mesage": "a"}, InvalidMessageError, "no field 'mesage'. Did you mean 'message'?"),
        ({}, InvalidMessageError, "needs a message"),
        (7, InvalidMessageError, "not int"),
        ({"message": "a", "state_delta": 7}, NotEncodableError, "mapping"),
        ({"message": "a", "state_delta": {"x": object()}}, NotEncodableError, "object"),
        ({"message": "a", "invocation_id": " "}, InvalidIdError, "invocation id"),
    ],
)
def test_a_wrong_input_is_refused_by_what_is_wrong(given: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read(given)
