"""Partials that may be merged, or left out."""

from __future__ import annotations

import pytest

from actors import Content, FunctionCall, Part
from actors.messages.codec import decode_event
from actors.rules.delivery.partials import merged
from tests.support.fixtures.streamed_events import complete, partial, texts


def test_pieces_that_differ_only_in_their_text_become_one_with_all_of_it() -> None:
    made = merged([partial("to", id="1", timestamp=1.0), partial(" be", id="2", timestamp=2.0), partial(" or", id="3")])
    assert texts(made) == [(0, "a", "to be or")]
    assert decode_event(made[0].raw, 0).partial
    assert decode_event(made[0].raw, 0).id == "1"


def test_a_single_piece_is_left_as_it_is() -> None:
    only = partial("one")
    assert merged([only])[0] is only


def test_each_voice_is_merged_by_itself_however_they_alternate() -> None:
    events = [
        partial("x", "a"),
        partial("1", "b"),
        partial("y", "a"),
        partial("2", "b"),
        partial("3", "b", "p.b"),
        partial("z", "a"),
    ]
    assert texts(merged(events)) == [(0, "a", "xyz"), (0, "b", "12"), (0, "b", "3")]


def test_thoughts_and_words_stay_apart() -> None:
    thought = Content(role="model", parts=[Part(text="hm", thought=True)])
    events = [
        partial("", content=thought),
        partial("", content=thought),
        partial("yes"),
        partial("!"),
        partial("", content=thought),
    ]
    assert texts(merged(events)) == [(0, "a", "hmhm"), (0, "a", "yes!"), (0, "a", "hm")]


@pytest.mark.parametrize(
    "content",
    [
        None,
        Content(role="model", parts=[Part(function_call=FunctionCall(name="f", args={}))]),
        Content(role="model", parts=[Part(text="a"), Part(text="b")]),
        Content(role="model", parts=[Part(text="a", thought_signature=b"x")]),
    ],
)
def test_pieces_of_another_kind_are_kept_in_their_places(content: Content | None) -> None:
    other = partial("", content=content)
    events = [partial("1"), partial("2"), other, other, partial("3"), partial("4")]
    made = merged(events)
    assert (made[1], made[2]) == (other, other)
    assert texts([made[0], made[3]]) == [(0, "a", "12"), (0, "a", "34")]


def test_the_pieces_of_a_complete_answer_are_left_out_and_those_of_others_kept() -> None:
    events = [partial("x"), partial("1", "b"), partial("y"), complete(4, "xy"), partial("2", "b"), partial("z")]
    assert texts(merged(events)) == [(0, "b", "12"), (4, "a", "xy"), (0, "a", "z")]
