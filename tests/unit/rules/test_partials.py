"""What is kept of answers under way, what a reader lacks of one, and which pieces are merged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Content, FunctionCall, Part
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.rules.partials import MAX_BYTES, MERGE_BYTES, AnswerId, AnswerPartials, AnswersUnderWay, merged, rest_of
from tests.support.fixtures.streamed_events import complete, partial, texts

FIRST, SECOND = AnswerId(1, 1, 0), AnswerId(1, 1, 1)


def said(partials: list[p.StoredEvent]) -> str:
    return "".join(text for _, _, text in texts(partials))


def thought(text: str) -> p.StoredEvent:
    return partial("", content=Content(role="model", parts=[Part(text=text, thought=True)]))


def test_partials_that_come_twice_count_once() -> None:
    answers = AnswersUnderWay()
    answers.tell(FIRST, 0, [partial("a"), partial("b")])
    assert said(list(answers.tell(FIRST, 1, [partial("b"), partial("c")]).new)) == "c"
    assert answers.tell(FIRST, 0, [partial("a")]).new == []
    assert said(answers.partials()) == "abc"


def test_partials_after_a_gap_are_asked_for_again() -> None:
    answers = AnswersUnderWay()
    assert answers.tell(FIRST, 3, [partial("d")]).lacks_beginning
    assert not answers
    told = answers.tell(FIRST, 0, [partial("abcd")], again=True)
    assert (said(list(told.new)), told.begins_again) == ("abcd", True)
    assert not answers.tell(FIRST, 1, [partial("e")]).begins_again
    assert answers.tell(FIRST, 4, [partial("h")]).lacks_beginning
    assert said(answers.partials()) == "abcde"


def test_an_answer_is_forgotten_when_it_is_complete_and_another_agents_is_not() -> None:
    answers = AnswersUnderWay()
    answers.tell(FIRST, 0, [partial("a")])
    answers.tell(AnswerId(1, 2, 0), 0, [partial("b", "other", "side")])
    answers.complete(complete(2, "a").raw)
    assert texts(answers.partials()) == [(0, "other", "b")]
    assert not answers.tell(SECOND, 0, [partial("next")]).begins_again


def test_an_answer_whose_event_is_read_from_the_log_is_forgotten_and_no_other_of_the_same_agent() -> None:
    answers = AnswersUnderWay()
    answers.tell(FIRST, 0, [partial("a", id="2"), partial("b", id="2")])
    answers.complete_stored([complete(1, "before")])
    assert said(answers.partials()) == "ab"
    answers.complete_stored([partial("ab", id="2")])
    assert not answers


def test_the_answer_of_a_lost_run_is_void_and_the_next_attempt_begins_it_again() -> None:
    answers = AnswersUnderWay()
    answers.tell(FIRST, 0, [partial("lost")])
    answers.drop_runs([7])
    assert said(answers.partials()) == "lost"
    answers.drop_runs([1])
    assert answers.partials() == []
    assert answers.tell(AnswerId(1, 2, 0), 0, [partial("anew")]).begins_again
    assert said(answers.partials()) == "anew"
    assert answers.tell(AnswerId(2, 3, 0), 0, [partial("other epoch")]).begins_again
    assert said(answers.partials()) == "other epoch"


def test_what_is_kept_of_an_answer_is_bounded() -> None:
    answer = AnswerPartials()
    for _ in range(10_000):
        answer.add([partial("word ")])
    assert said(answer.partials()) == "word " * 10_000
    assert sum(len(each.raw) for each in answer.partials()) < 2 * MERGE_BYTES
    answer.add([partial("x" * MAX_BYTES)])
    assert (answer.is_whole, answer.partials()) == (False, [])
    answer.add([partial("more")])
    assert (answer.count, answer.partials()) == (10_002, [])
    answers = AnswersUnderWay()
    answers.tell(FIRST, 0, [partial("x" * (MAX_BYTES + 1))])
    assert (answers.partials(), answers.cut_off()) == ([], [("a", None)])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "ab"])), max_size=8), st.integers(0, 8))
def test_what_a_reader_lacks_is_what_comes_after_what_it_had(pieces: list[tuple[bool, str]], cut: int) -> None:
    partials = [thought(text) if is_thought else partial(text) for is_thought, text in pieces]
    rest = rest_of(partials[:cut], partials)
    assert said(partials[:cut]) + said(rest) == said(partials)


@pytest.mark.parametrize("had", [[partial("other")], [thought("a")], [partial("a"), thought("b"), partial("c"), partial("d")]])
def test_another_attempt_is_given_from_its_beginning(had: list[p.StoredEvent]) -> None:
    told = [partial("a"), thought("b"), partial("c")]
    assert said(rest_of(had, told)) == "abc"


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
