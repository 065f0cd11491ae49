"""Limits of models that are changed while they are in use."""

from __future__ import annotations

import pytest

from actors.errors import RequestError
from actors.layers.limiter.limits import ModelLimits, changed_limits, in_force, limits_of, name_of
from actors.layers.limiter.rate_limiter import FailedAttempt, RateLimiter
from actors.messages.session import SessionKey

SETTINGS = {"gemini-*": ModelLimits(max_concurrency=8, max_retries=1), "*": ModelLimits(requests_per_minute=60)}
ADA = SessionKey("app", "ada", "s1")


def test_a_change_keeps_what_it_does_not_name() -> None:
    changed = changed_limits("gemini-2.5-pro", {"tokens_per_minute": 1000}, SETTINGS, {})
    assert changed == {"gemini-2.5-pro": ModelLimits(max_concurrency=8, max_retries=1, tokens_per_minute=1000)}
    again = changed_limits("gemini-2.5-pro", {"max_concurrency": None}, SETTINGS, changed)
    assert again == {"gemini-2.5-pro": ModelLimits(max_retries=1, tokens_per_minute=1000)}
    limits = in_force(SETTINGS, changed_limits("*", {"requests_per_minute": 5}, SETTINGS, again))
    assert limits["*"] == ModelLimits(requests_per_minute=5)
    assert limits_of("gemini-2.5-pro", limits) == again["gemini-2.5-pro"]


def test_a_changed_pattern_keeps_its_place_in_the_settings() -> None:
    limits = in_force(SETTINGS, changed_limits("*", {"requests_per_minute": 5}, SETTINGS, {}))
    assert [limits_of(model, limits) for model in ("gemini-x", "gpt-5")] == [
        SETTINGS["gemini-*"],
        ModelLimits(requests_per_minute=5),
    ]


def test_models_are_counted_where_their_limits_are() -> None:
    same = {"a": ModelLimits(), "b*": ModelLimits(), "*": ModelLimits()}
    assert [name_of(model, same) for model in ("a", "b1", "c")] == ["a", "b*", "*"]
    assert name_of("c", {"a": ModelLimits()}) == ""


@pytest.mark.parametrize("name", ["gpt-5", "gem*", ""])
def test_a_model_that_nothing_counts_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="had no limits when the deployment started"):
        changed_limits(name, {"max_concurrency": 1}, {"gemini-*": ModelLimits()}, {})


def test_calls_that_run_and_what_was_used_count_under_other_limits() -> None:
    limiter = RateLimiter(ModelLimits())
    for number in range(3):
        limiter.enqueue(f"p{number}", ADA)
    assert len(limiter.grant(0.0)) == 3
    limiter.end_call("p0", 1.0, tokens=900)
    limiter.change(ModelLimits(max_concurrency=2))
    limiter.enqueue("p3", ADA)
    assert limiter.grant(2.0) == []
    limiter.end_call("p1", 3.0, tokens=100)
    limiter.change(ModelLimits(tokens_per_minute=1_000))
    assert limiter.grant(4.0) == []
    limiter.change(ModelLimits(tokens_per_minute=10_000))
    assert limiter.grant(5.0) == ["p3"]
    limiter.change(ModelLimits(requests_per_minute=4))
    limiter.enqueue("p4", ADA)
    assert limiter.grant(6.0) == []


def test_a_larger_reserve_allows_more_retries_and_a_smaller_one_fewer() -> None:
    limiter = RateLimiter(ModelLimits(retry_reserve=1))
    failed = FailedAttempt(attempt=1, status=503, retry_after_s=0.0)
    assert [limiter.retry(f"p{number}", ADA, failed, 0.0, 0.0) for number in range(2)] == [True, False]
    limiter.change(ModelLimits(retry_reserve=2))
    assert [limiter.retry(f"q{number}", ADA, failed, 0.0, 0.0) for number in range(2)] == [True, False]
    limiter.change(ModelLimits(retry_reserve=9))
    limiter.change(ModelLimits(retry_reserve=0))
    assert not limiter.retry("r", ADA, failed, 0.0, 0.0)
