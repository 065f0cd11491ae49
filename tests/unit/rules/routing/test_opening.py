"""What happens to a request to open a turn: one outcome for every combination of facts."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.config import OnConcurrentTurn
from actors.messages.protocol.turns import CancelRequired, ResumeRequired
from actors.rules.routing.opening import (
    Begin,
    Decision,
    Free,
    Join,
    Leave,
    Open,
    OpeningFacts,
    Refuse,
    Resume,
    Taken,
    Wait,
    decide,
)

POLICIES = typing.get_args(OnConcurrentTurn)

turns = st.sampled_from(["e-1", "e-2"])
maybe_turns = st.just("") | turns
opened: st.SearchStrategy[Open] = st.builds(Open, turns, st.booleans(), st.booleans(), st.booleans())
unopened: st.SearchStrategy[Free | Taken] = st.sampled_from([Free(), Taken()])


def facts_of(session: st.SearchStrategy[Free | Taken | Open]) -> st.SearchStrategy[OpeningFacts]:
    return st.builds(OpeningFacts, session, maybe_turns, st.sampled_from(POLICIES), maybe_turns)


any_facts = facts_of(opened | unopened)


@given(any_facts)
def test_every_combination_of_facts_has_one_outcome_and_always_the_same(facts: OpeningFacts) -> None:
    decision = decide(facts)
    assert isinstance(decision, typing.get_args(Decision))
    assert decide(facts) == decision


@given(any_facts)
def test_a_turn_begins_only_where_none_is_open_and_the_session_is_free_or_kept_for_it(facts: OpeningFacts) -> None:
    may_begin = isinstance(facts.session, Free) and not facts.known_turn
    assert (decide(facts) == Begin()) is may_begin


@given(any_facts)
def test_a_turn_that_is_known_is_joined_and_never_begun_refused_or_queued(facts: OpeningFacts) -> None:
    decision = decide(facts)
    is_repeated = isinstance(facts.session, Open) and facts.session.began_with_event
    assert isinstance(decision, Join) is (bool(facts.known_turn) and not is_repeated)


@given(any_facts)
def test_a_joined_turn_is_lost_only_when_it_is_the_open_one_and_this_runner_does_not_run_it(facts: OpeningFacts) -> None:
    decision, session = decide(facts), facts.session
    if isinstance(decision, Join):
        is_open = isinstance(session, Open) and session.invocation_id == facts.known_turn
        assert decision.is_lost is (is_open and isinstance(session, Open) and not session.is_live)


@given(facts_of(st.builds(Open, turns, st.booleans(), st.just(True))))
def test_a_request_sent_again_for_the_turn_that_it_opened_resumes_it(facts: OpeningFacts) -> None:
    assert decide(facts) == Resume()


@given(any_facts)
def test_nobody_waits_for_an_open_turn_or_cancels_it_while_no_runner_runs_it(facts: OpeningFacts) -> None:
    if isinstance(facts.session, Open) and not facts.session.is_live:
        assert isinstance(decide(facts), Resume | Join | ResumeRequired)


@given(any_facts)
def test_the_runner_is_only_told_to_interrupt_or_resume_the_open_turn(facts: OpeningFacts) -> None:
    decision = decide(facts)
    if isinstance(decision, CancelRequired | ResumeRequired):
        assert isinstance(facts.session, Open)
        assert decision.invocation_id == facts.session.invocation_id


@given(any_facts)
def test_each_policy_has_its_own_outcome_for_a_turn_that_cannot_begin_yet(facts: OpeningFacts) -> None:
    decision = decide(facts)
    if isinstance(decision, Refuse):
        assert facts.on_concurrent_turn == "reject"
    if isinstance(decision, CancelRequired):
        assert facts.on_concurrent_turn == "interrupt"
    if isinstance(decision, Leave):
        assert facts.on_concurrent_turn == "steer"
    if isinstance(decision, Wait):
        # What steers and can be given to no turn waits as what is in line.
        assert facts.on_concurrent_turn in (("interrupt",) if decision.at_head else ("enqueue", "steer"))


@given(any_facts)
def test_what_runner_and_session_do_in_turn_comes_to_an_end(facts: OpeningFacts) -> None:
    """The Runner does what it is told to do first and asks again; a turn that waited is asked for again when it is kept."""
    for _ in range(4):
        match decide(facts):
            case Begin() | Resume() | Join() | Leave() | Refuse():
                return
            case ResumeRequired(invocation_id=turn):
                facts = OpeningFacts(Open(turn, is_live=True), facts.known_turn, facts.on_concurrent_turn, facts.interrupting)
            case CancelRequired(invocation_id=turn):
                facts = OpeningFacts(facts.session, facts.known_turn, facts.on_concurrent_turn, interrupting=turn)
            case Wait():
                facts = OpeningFacts(Free(), facts.known_turn, facts.on_concurrent_turn, facts.interrupting)
    pytest.fail(f"no end with {facts}")


LIVE = Open("e-1", is_live=True)
LOST = Open("e-1", is_live=False)
READING = Open("e-1", is_live=True, takes_message=True)


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        (OpeningFacts(Free()), Begin()),
        (OpeningFacts(Free(), on_concurrent_turn="reject"), Begin()),
        (OpeningFacts(Free(), known_turn="e-2"), Join()),
        (OpeningFacts(LIVE), Wait()),
        (OpeningFacts(LIVE, on_concurrent_turn="reject"), Refuse("e-1")),
        (OpeningFacts(LIVE, on_concurrent_turn="interrupt"), CancelRequired(invocation_id="e-1")),
        (OpeningFacts(LIVE, on_concurrent_turn="interrupt", interrupting="e-1"), Wait(at_head=True)),
        # Another turn has begun before the one that interrupts: that has to be cancelled, too.
        (OpeningFacts(LIVE, on_concurrent_turn="interrupt", interrupting="e-0"), CancelRequired(invocation_id="e-1")),
        (OpeningFacts(LIVE, on_concurrent_turn="steer"), Wait()),
        (OpeningFacts(READING, on_concurrent_turn="steer"), Leave()),
        (OpeningFacts(READING), Wait()),
        (OpeningFacts(Taken()), Wait()),
        (OpeningFacts(Taken(), on_concurrent_turn="reject"), Refuse()),
        (OpeningFacts(Taken(), on_concurrent_turn="interrupt"), Wait(at_head=True)),
        (OpeningFacts(LOST), ResumeRequired(invocation_id="e-1")),
        (OpeningFacts(LOST, on_concurrent_turn="reject"), ResumeRequired(invocation_id="e-1")),
        (OpeningFacts(LOST, on_concurrent_turn="interrupt"), ResumeRequired(invocation_id="e-1")),
        (OpeningFacts(LIVE, known_turn="e-1"), Join()),
        (OpeningFacts(LOST, known_turn="e-1"), Join(is_lost=True)),
        (OpeningFacts(LOST, known_turn="e-0"), Join()),
        (OpeningFacts(Open("e-1", is_live=True, began_with_event=True), known_turn="e-1"), Resume()),
    ],
)
def test_examples(facts: OpeningFacts, decision: Decision) -> None:
    assert decide(facts) == decision
