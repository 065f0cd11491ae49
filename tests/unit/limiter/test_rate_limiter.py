"""Who may ask a model next: the limits hold whatever happens, and nobody is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import DefinitionError
from actors.layers.limiter.limits import ModelLimits, limits_of
from actors.layers.limiter.rate_limiter import (
    MAX_RETRY_AFTER_S,
    MINUTE_S,
    TOO_MANY_REQUESTS,
    FailedAttempt,
    RateLimiter,
)
from actors.messages.session import SessionKey
from tests.support.tries import tries


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


class Play:
    """Calls of some sessions that begin, fail and end at random, and what has to hold all the time."""

    def __init__(self, limits: ModelLimits) -> None:
        self.limits = limits
        self.limiter = RateLimiter(limits)
        self.now_s = 0.0
        self.begun: list[float] = []
        self.running: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.repeated: dict[str, int] = {}
        self.passed: dict[int, set[int]] = {}
        self.attempts: dict[str, int] = {}
        self.paused_until_s = 0.0
        self.calls = self.retries = 0

    def ask(self, session: int) -> None:
        self.calls += 1
        call = f"call-{self.calls}"
        self.waiting[call] = session
        self.passed.setdefault(session, set())
        self.limiter.enqueue(call, of(str(session)))
        self.limiter.enqueue(call, of(str(session)))

    def end(self, index: int, tokens: int) -> None:
        if self.running:
            call = list(self.running)[index % len(self.running)]
            del self.running[call]
            self.limiter.end_call(call, self.now_s, tokens)

    def fail(self, index: int, status: int) -> None:
        if self.running:
            call = list(self.running)[index % len(self.running)]
            session = self.running.pop(call)
            self.attempts[call] = self.attempts.get(call, 0) + 1
            if self.limiter.retry(
                call, of(str(session)), FailedAttempt(attempt=self.attempts[call], status=status), self.now_s, 0.5
            ):
                self.retries += 1
                self.repeated[call] = session
                assert self.attempts[call] <= self.limits.max_retries

    def give_up(self, index: int) -> None:
        if self.waiting:
            call = list(self.waiting)[index % len(self.waiting)]
            self.left(self.waiting.pop(call))
            self.limiter.end_call(call, self.now_s)

    def left(self, session: int) -> None:
        if session not in self.waiting.values():
            self.passed.pop(session, None)

    def grant(self) -> None:
        for call in self.limiter.grant(self.now_s):
            # A repetition is a turn of its session like any other.
            session = self.waiting.pop(call) if call in self.waiting else self.repeated.pop(call)
            self.running[call] = session
            self.begun.append(self.now_s)
            for other, passed in self.passed.items():
                if other != session:
                    assert session not in passed, f"{session} was served twice while {other} waited"
                    passed.add(session)
            if session in self.passed:
                self.passed[session] = set()
                self.left(session)
        self.check()

    def check(self) -> None:
        most = self.limits.max_concurrency
        assert self.limiter.running == len(self.running)
        assert most is None or len(self.running) <= most
        rate = self.limits.requests_per_minute
        assert rate is None or all(
            later - earlier > MINUTE_S - 1e-6 for earlier, later in zip(self.begun, self.begun[rate:], strict=False)
        )
        assert self.retries <= self.limits.retry_reserve + self.limits.retry_ratio * self.calls + 1e-6


steps = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 4), st.just(0)),
    st.tuples(st.just("ask"), st.integers(0, 4), st.just(0)),
    st.tuples(st.just("end"), st.integers(0, 50), st.integers(0, 60)),
    st.tuples(st.just("fail"), st.integers(0, 50), st.sampled_from([429, 503])),
    st.tuples(st.just("give_up"), st.integers(0, 50), st.just(0)),
    st.tuples(st.just("pass"), st.floats(0.0, 40.0), st.just(0)),
)
some_limits = st.builds(
    ModelLimits,
    max_concurrency=st.one_of(st.none(), st.integers(1, 4)),
    requests_per_minute=st.one_of(st.none(), st.integers(1, 6)),
    tokens_per_minute=st.one_of(st.none(), st.integers(1, 100)),
    max_retries=st.integers(0, 3),
    retry_ratio=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    retry_reserve=st.integers(0, 3),
)


@settings(max_examples=tries(400))
@given(some_limits, st.lists(steps, max_size=80))
def test_limits_are_never_exceeded_no_session_is_passed_over_and_all_come_to_their_turn(
    limits: ModelLimits, what: list[tuple[str, float, int]]
) -> None:
    play = Play(limits)
    for step, value, more in what:
        match step:
            case "ask":
                play.ask(int(value))
            case "end":
                play.end(int(value), more)
            case "fail":
                play.fail(int(value), more)
            case "give_up":
                play.give_up(int(value))
            case _:
                play.now_s += value
        play.grant()
    # From now on everything is well: whoever waits has to come to his turn, asked again only when that was said.
    for _ in range(2_000):
        while play.running:
            play.end(0, 1)
        play.grant()
        if not play.running:
            if not play.limiter.waiting:
                return
            wait_s = play.limiter.wait_s(play.now_s)
            assert wait_s is not None, "calls wait, and nobody will ask again"
            assert 0 < wait_s <= MAX_RETRY_AFTER_S
            play.now_s += wait_s
    raise AssertionError("calls wait for ever")
