"""What is done about a child that has failed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Content, Event, EventActions, LoopAgent, ParallelAgent, SequentialAgent, Supervision
from actors.errors import (
    BudgetExceededError,
    DefinitionError,
    LlmCallsLimitExceededError,
    NoPriceError,
    RaygroveError,
    TransferLimitExceededError,
)
from actors.layers.workflows.rules import TURN_LIMITS, backoff, decide, decision_text, record
from actors.messages.protocol.runs import Failed
from actors.rules.failures import failure
from actors.testing import ManualClock
from runtime.frontends.console.lines import event_lines

KAPUT = Failed(agent="a", error_code="ValueError", error_message="kaput")

supervisions = st.builds(
    Supervision,
    strategy=st.just("restart"),
    max_restarts=st.integers(0, 5),
    within_s=st.floats(0.5, 100),
    backoff_s=st.floats(0, 10),
    max_backoff_s=st.floats(0, 40),
)


@given(supervisions, st.lists(st.floats(0, 60), max_size=40))
def test_a_child_is_never_run_again_more_often_than_allowed_in_any_window(policy: Supervision, pauses: list[float]) -> None:
    clock = ManualClock(now_s=1_000)
    starts: tuple[float, ...] = ()
    begun: list[float] = []
    for runs_s in pauses:
        # How long the run takes that fails then.
        clock.advance(runs_s)
        decision = decide(policy, "a", KAPUT, starts, clock.now_s())
        if decision.strategy != "restart":
            # Whoever supervises above begins again.
            assert decision.strategy == "escalate"
            assert len([start for start in begun if clock.now_s() - start <= policy.within_s]) >= policy.max_restarts
            continue
        starts = decision.starts
        assert decision.attempt == len(starts) <= policy.max_restarts
        clock.advance(starts[-1] - clock.now_s())
        begun.append(starts[-1])
    for first in begun:
        assert len([start for start in begun if 0 <= start - first <= policy.within_s]) <= policy.max_restarts


@given(supervisions, st.integers(1, 2_000))
def test_the_wait_before_a_restart_grows_up_to_the_longest(policy: Supervision, attempt: int) -> None:
    waits = [backoff(policy).after_attempts(number) for number in (attempt, attempt + 1)]
    assert 0 <= waits[0] <= waits[1] <= policy.max_backoff_s
    assert waits[1] in (waits[0] * 2, policy.max_backoff_s) or attempt > 64
    assert backoff(policy).after_attempts(1) == min(policy.backoff_s, policy.max_backoff_s)


def test_restarts_long_ago_do_not_count_and_those_ahead_do() -> None:
    policy = Supervision(strategy="restart", max_restarts=2, within_s=10, backoff_s=1)
    assert decide(policy, "a", KAPUT, (80.0, 85.0), 100.0)[::2] == ("restart", 1)
    assert decide(policy, "a", KAPUT, (85.0, 95.0), 100.0) == (
        "restart",
        "a failed with ValueError: restart 2 of 2 within 10 s begins in 2 s",
        2,
        (95.0, 102.0),
    )
    # The clock was set back.
    assert decide(policy, "a", KAPUT, (200.0, 201.0), 100.0).strategy == "escalate"


@given(st.sampled_from(["escalate", "restart", "skip"]), st.sampled_from(sorted(TURN_LIMITS)))
def test_limits_of_the_whole_turn_always_go_up(strategy: str, code: str) -> None:
    policy = Supervision.model_validate({"strategy": strategy})
    assert decide(policy, "a", Failed(error_code=code), (), 0.0).strategy == "escalate"


def test_the_limits_are_there() -> None:
    limits: list[RaygroveError] = [
        LlmCallsLimitExceededError("a", 1),
        TransferLimitExceededError("a", "b", 1),
        BudgetExceededError("a", "tokens", 5, 4, 2, "turn 'e-1'"),
        NoPriceError("a", "m"),
    ]
    assert {failure(error).error_code for error in limits} == TURN_LIMITS


def test_a_failure_is_passed_over_however_often() -> None:
    decision = decide(Supervision(strategy="skip"), "a", KAPUT, (), 0.0)
    assert decision == ("skip", "a failed with ValueError: it goes on without a", 0, ())
    below = decide(Supervision(strategy="skip"), "team", KAPUT, (), 0.0)
    assert below.text == "team failed, since a did, with ValueError: it goes on without team"


def test_a_decision_is_told_as_a_line_and_metadata_of_models_are_not() -> None:
    policy = Supervision(strategy="restart")
    metadata = record(policy, "a", KAPUT, decide(policy, "a", KAPUT, (), 0.0))
    assert metadata == {
        "supervision": {
            "decision": "restart",
            "child": "a",
            "error_code": "ValueError",
            "attempt": 1,
            "of": 3,
            "told": "a failed with ValueError: restart 1 of 3 within 60 s begins in 0.5 s",
        }
    }
    event = Event(custom_metadata=metadata, actions=EventActions(agent_state={"child": "a"}))
    assert list(event_lines(event)) == [("supervision", "a failed with ValueError: restart 1 of 3 within 60 s begins in 0.5 s")]
    assert decision_text(Event(custom_metadata=metadata)) is None
    said = Event(content=Content.of_text("hi"), custom_metadata=metadata, actions=EventActions(agent_state={}))
    assert decision_text(said) is None
    assert decision_text(Event(custom_metadata={"supervision": "x"}, actions=EventActions(agent_state={}))) is None


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent, LoopAgent])
def test_every_workflow_agent_lets_failures_go_up_by_default(kind: type[LoopAgent]) -> None:
    assert kind(name="a").supervision == Supervision(
        strategy="escalate", max_restarts=3, within_s=60.0, backoff_s=0.5, max_backoff_s=30.0
    )


@pytest.mark.parametrize(
    ("wrong", "told_of"),
    [
        ({"strategy": "resume"}, "strategy: Input should be 'escalate', 'restart' or 'skip'"),
        ({"max_restarts": -1}, "max_restarts: Input should be greater than or equal to 0"),
        ({"within_s": 0}, "within_s: Input should be greater than 0"),
        ({"within_s": float("inf")}, "within_s: Input should be a finite number"),
        ({"backoff": 1}, "backoff: there is no such field. Did you mean .backoff_s.."),
    ],
)
def test_what_is_defined_wrongly_is_named(wrong: dict[str, Any], told_of: str) -> None:
    with pytest.raises(DefinitionError, match=f"^Supervision '.*' is not defined rightly: {told_of}$"):
        Supervision(**wrong)
    with pytest.raises(DefinitionError, match=f"^SequentialAgent 'a' is not defined rightly: .*{told_of}$"):
        SequentialAgent(name="a", supervision=wrong)  # type: ignore[arg-type]
