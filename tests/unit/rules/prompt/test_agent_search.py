"""Agents are found by words of their names and descriptions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rules.prompt.agent_search import MAX_FOUND, AgentSearch, words

AGENTS = {
    "refund_clerk": "Pays money back for orders.",
    "order_clerk": "Looks orders up.",
    "billing": "Invoices and cards, also of old orders.",
    "borderline": "Decides who may enter.",
    "TaxAdviser": "Answers questions about taxes.",
    "hotel_7": "Books rooms.",
    "hotel_77": "Books rooms.",
    "tuikuan": "处理退款和发票",
    "silent": "",
}

identifiers = st.text("abAB_1éß", min_size=1, max_size=6).filter(str.isidentifier)
trees = st.lists(st.tuples(identifiers, st.text("abc XYZ.é1", max_size=12)), max_size=30, unique_by=lambda each: each[0])


def found(question: str, agents: dict[str, str] = AGENTS) -> list[str]:
    names = list(agents)
    return [names[place] for place in AgentSearch(names, list(agents.values())).find(question)]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("refund", "refund_clerk"),
        ("I want refunds, please", "refund_clerk"),
        ("REFUND", "refund_clerk"),
        ("an invoice", "billing"),
        ("tax adviser", "TaxAdviser"),
        ("taxadviser", "TaxAdviser"),
        ("hotel 7", "hotel_7"),
        ("hotel_77", "hotel_77"),
        ("退款", "tuikuan"),
        ("silent", "silent"),
        ("border", "borderline"),
    ],
)
def test_words_find_who_they_fit(question: str, first: str) -> None:
    assert found(question)[0] == first


def test_a_whole_word_counts_more_than_a_part_and_a_name_more_than_a_description() -> None:
    assert found("order") == ["order_clerk", "borderline", "refund_clerk", "billing"]


def test_a_word_that_few_have_counts_more_than_one_that_many_have() -> None:
    agents = {f"clerk_{number}": "Answers questions." for number in range(50)} | {"x": "Answers about dinosaurs."}
    assert found("answers dinosaurs", agents)[0] == "x"


@pytest.mark.parametrize("question", ["", "  ", "?!", "zebra", "_", "i", "or"])
def test_words_that_fit_nobody_find_nobody(question: str) -> None:
    assert found(question) == []


@given(trees)
def test_everybody_is_found_first_by_its_own_name(agents: Sequence[tuple[str, str]]) -> None:
    for name, _ in agents:
        assert found(name, dict(agents))[0] == name
        assert found(f" {name}\n", dict(agents))[0] == name


@given(trees, st.text("abcAB_ 1é.X", max_size=20))
def test_at_most_ten_are_found_each_once_and_always_the_same(agents: Sequence[tuple[str, str]], question: str) -> None:
    first = found(question, dict(agents))
    assert len(first) == len(set(first)) <= MAX_FOUND
    assert first == found(question, dict(agents))


@given(st.integers(1, 40), st.sampled_from(["room", "books", "hotel"]))
def test_equal_agents_stay_in_their_order(count: int, question: str) -> None:
    agents = {f"hotel_{chr(97 + number % 26)}{'x' * number}": "Books rooms." for number in range(count)}
    assert found(question, agents) == list(agents)[:MAX_FOUND]


@given(trees, st.text("abcAB_ 1é.X", max_size=20))
def test_who_fits_no_word_changes_nothing_for_the_others(agents: Sequence[tuple[str, str]], question: str) -> None:
    strangers = {**dict(agents), "zzz": "qqq"}
    assert set(found(question, strangers)) == set(found(question, dict(agents))) - {"zzz"}


def test_names_are_taken_apart_at_underscores_humps_and_digits() -> None:
    assert words("RefundClerk_2b, für HTTP") == ["refund", "clerk", "2", "b", "für", "http"]


def test_a_number_means_no_other() -> None:
    assert found("7") == ["hotel_7"]
    assert found("77") == ["hotel_77"]
    assert found("777") == []


def test_a_question_of_any_length_is_answered() -> None:
    assert found("refund " + " ".join(f"x{number}y" for number in range(10_000)))[0] == "refund_clerk"


def test_agents_that_fit_no_word_leave_the_order_of_the_others_as_it_is() -> None:
    agents = {"alpha_beta": "", "alpha": "beta", "beta": "", "beta_x": "", "gamma": "alpha"}
    strangers = {f"zzz{number}": "qqq" for number in range(1_000)}
    assert found("alpha beta", {**strangers, **agents}) == found("alpha beta", agents)
