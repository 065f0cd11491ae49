"""Who may ask a model next, when, and how often again; seeds of the world `limits` hold that for any traffic."""

from __future__ import annotations

import pytest

from actors.errors import DefinitionError
from actors.layers.limiter.limits import ModelLimits, limits_of
from actors.layers.limiter.rate_limiter import (
    MAX_RETRY_AFTER_S,
    TOO_MANY_REQUESTS,
    FailedAttempt,
    RateLimiter,
)
from actors.messages.session import SessionKey


def of(user: str, session: str = "s") -> SessionKey:
    return SessionKey("app", user, session)


def asked(limiter: RateLimiter, *calls: str) -> None:
    """Have calls wait; the letter of each is its user."""
    for call in calls:
        limiter.enqueue(call, of(call[0]))


def test_users_have_their_turns_one_after_the_other_however_many_calls_they_have() -> None:
    limiter = RateLimiter(ModelLimits(max_concurrency=1))
    asked(limiter, "a1", "a2", "a3", "b1", "c1", "b2")
    order = []
    for now_s in range(6):
        (granted,) = limiter.grant(now_s)
        order.append(granted)
        limiter.end_call(granted, now_s)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert limiter.grant(9.0) == []
    assert limiter.counts["granted"] == 6


def test_sessions_of_a_user_have_their_turns_and_no_more_than_those_of_a_user_with_one() -> None:
    limiter = RateLimiter(ModelLimits(max_concurrency=1))
    for call, session in [("a1", "s"), ("a2", "s"), ("a3", "t"), ("a4", "u")]:
        limiter.enqueue(call, of("a", session))
    asked(limiter, "b1", "b2")
    order = []
    for now_s in range(6):
        (granted,) = limiter.grant(now_s)
        order.append(granted)
        limiter.end_call(granted, now_s)
    assert order == ["a1", "b1", "a3", "b2", "a4", "a2"]


def test_calls_begin_as_often_a_minute_as_they_may() -> None:
    limiter = RateLimiter(ModelLimits(requests_per_minute=2))
    asked(limiter, "a1", "a2", "a3", "a4")
    assert limiter.grant(0.0) == ["a1", "a2"]
    assert limiter.wait_s(10.0) == 50.0
    assert limiter.grant(59.9) == []
    assert limiter.grant(60.0) == ["a3", "a4"]
    assert limiter.wait_s(60.0) is None


def test_what_calls_use_holds_others_back_for_a_minute() -> None:
    limiter = RateLimiter(ModelLimits(tokens_per_minute=100))
    asked(limiter, "a1", "a2", "a3", "a4", "a5")
    # Nothing is known yet of how much they use.
    assert limiter.grant(0.0) == ["a1"]
    assert limiter.wait_s(0.0) is None
    limiter.end_call("a1", 1.0, 40)
    assert limiter.grant(1.0) == ["a2", "a3"]
    limiter.end_call("a2", 2.0, 40)
    limiter.end_call("a3", 2.0, 80)
    assert limiter.grant(2.0) == []
    assert limiter.wait_s(2.0) == 59.0
    assert limiter.grant(61.0) == []
    assert limiter.grant(62.0) == ["a4", "a5"]


def test_a_call_that_is_given_up_leaves_the_line_and_one_that_has_ended_makes_room() -> None:
    limiter = RateLimiter(ModelLimits(max_concurrency=1))
    asked(limiter, "a1", "b1", "b2", "c1")
    assert limiter.grant(0.0) == ["a1"]
    limiter.end_call("b1", 0.0)
    limiter.end_call("c1", 0.0)
    limiter.end_call("never seen", 0.0)
    assert limiter.waiting == 1
    limiter.end_call("a1", 1.0)
    assert limiter.grant(1.0) == ["b2"]


def test_a_service_that_is_asked_too_often_is_left_alone_by_everybody() -> None:
    limiter = RateLimiter(ModelLimits())
    asked(limiter, "a1")
    assert limiter.grant(0.0) == ["a1"]
    assert limiter.retry("a1", of("a"), FailedAttempt(attempt=1, status=TOO_MANY_REQUESTS, retry_after_s=7.0), 0.0, 0.5)
    asked(limiter, "b1")
    assert limiter.grant(6.9) == []
    assert limiter.wait_s(6.0) == 1.0
    assert sorted(limiter.grant(7.0)) == ["a1", "b1"]
    # Without advice, longer each time; and all the same however often each call has failed.
    assert limiter.retry("b1", of("b"), FailedAttempt(attempt=1, status=TOO_MANY_REQUESTS), 7.0, 0.0)
    assert limiter.wait_s(7.0) == 2.0
    limiter.end_call("a1", 8.0)
    assert limiter.grant(9.0) == ["b1"]
    assert limiter.retry("b1", of("b"), FailedAttempt(attempt=1, status=TOO_MANY_REQUESTS), 9.0, 0.0)
    assert limiter.wait_s(9.0) == 1.0


def test_who_waits_asks_again_when_the_service_may_be_asked_though_no_call_is_repeated() -> None:
    limiter = RateLimiter(ModelLimits(max_retries=0))
    asked(limiter, "a1", "b1")
    limiter.grant(0.0)
    assert not limiter.retry("a1", of("a"), FailedAttempt(attempt=1, status=TOO_MANY_REQUESTS, retry_after_s=7.0), 0.0, 0.0)
    asked(limiter, "c1")
    assert limiter.grant(1.0) == []
    assert limiter.wait_s(1.0) == 6.0


def test_other_troubles_are_the_calls_own() -> None:
    limiter = RateLimiter(ModelLimits())
    asked(limiter, "a1")
    limiter.grant(0.0)
    assert limiter.retry("a1", of("a"), FailedAttempt(attempt=3, status=503), 0.0, 1.0)
    asked(limiter, "b1")
    assert limiter.grant(0.0) == ["b1"]
    assert limiter.wait_s(0.0) == 2.0
    assert limiter.grant(2.0) == ["a1"]


def test_a_call_is_not_repeated_too_often_nor_after_too_long_a_wait_nor_when_it_is_not_wanted() -> None:
    limiter = RateLimiter(ModelLimits(max_retries=2))
    asked(limiter, "a1", "a2", "a3")
    limiter.grant(0.0)
    assert not limiter.retry("a1", of("a"), FailedAttempt(attempt=3), 0.0, 0.0)
    assert not limiter.retry(
        "a2", of("a"), FailedAttempt(attempt=1, status=TOO_MANY_REQUESTS, retry_after_s=MAX_RETRY_AFTER_S + 1), 0.0, 0.0
    )
    assert limiter.counts["retries_refused"] == 2
    # Who asks next is told the same at once, instead of waiting that long.
    assert limiter.wait_s(0.0) is None
    assert limiter.retry("a3", of("a"), FailedAttempt(attempt=1), 0.0, 0.0)
    limiter.end_call("a3", 0.5)
    assert limiter.grant(1.0) == []
    assert (limiter.running, limiter.waiting) == (0, 0)


def test_repetitions_are_a_part_of_the_calls_and_a_few() -> None:
    limiter = RateLimiter(ModelLimits(retry_ratio=0.5, retry_reserve=2))
    asked(limiter, *(f"a{number}" for number in range(8)))
    limiter.grant(0.0)
    # A reserve is not saved up beyond its size.
    assert [limiter.retry(f"a{number}", of("a"), FailedAttempt(attempt=1), 0.0, 0.0) for number in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    asked(limiter, "b1", "b2")
    limiter.grant(0.0)
    assert [limiter.retry(call, of("b"), FailedAttempt(attempt=1), 0.0, 0.0) for call in ("b1", "b2")] == [True, False]


def test_a_call_of_which_another_has_known_counts() -> None:
    limiter = RateLimiter(ModelLimits(max_concurrency=1))
    limiter.hold_permit("x")
    asked(limiter, "a1")
    assert limiter.grant(0.0) == []
    limiter.end_call("x", 1.0)
    assert limiter.grant(1.0) == ["a1"]


def test_the_name_of_a_model_goes_before_patterns() -> None:
    limits = {"gemini-*": ModelLimits(max_concurrency=1), "gemini-2": ModelLimits(max_concurrency=2), "*": ModelLimits()}
    assert limits_of("gemini-2", limits) == limits["gemini-2"]
    assert limits_of("gemini-3", limits) == limits["gemini-*"]
    assert limits_of("other", limits) == limits["*"]
    assert limits_of("other", {"gemini-*": ModelLimits()}) is None


@pytest.mark.parametrize("wrong", [{"max_concurrency": 0}, {"requests_per_minute": -1}, {"retry_ratio": 2}, {"max_calls": 3}])
def test_limits_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(DefinitionError, match=f"^ModelLimits: {next(iter(wrong))}: "):
        ModelLimits(**wrong)
