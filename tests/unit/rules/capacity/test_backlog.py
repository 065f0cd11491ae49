"""What waits is bounded, for each session, user and deployment, by number and by bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import OverloadedError
from actors.messages.config import Limits
from actors.messages.session import SessionKey, TurnKey
from actors.rules.queues import Backlog
from tests.support.tries import tries

NARROW = Limits.model_construct(
    max_waiting_session_turns=2,
    max_waiting_user_turns=3,
    max_waiting_turns=5,
    max_waiting_user_bytes=100,
    max_waiting_bytes=150,
)


def turn(user: str, session: str, number: int) -> TurnKey:
    return SessionKey("app", user, session), f"e-{number}"


def filled(*turns: TurnKey, size: int = 1) -> Backlog:
    backlog = Backlog(NARROW)
    for now_s, each in enumerate(turns):
        assert backlog.refusal(each, size, now_s) is None
        backlog.add(each, size, now_s)
    return backlog


A1, A2, A3, B1, B2, C1 = ("a", "s", 1), ("a", "s", 2), ("a", "t", 1), ("b", "s", 1), ("b", "t", 1), ("c", "s", 1)


@pytest.mark.parametrize(
    ("turns", "size", "asked", "told"),
    [
        ([A1, A2], 1, ("a", "s", 3), "session 's' has 2 turns waiting, and max_waiting_session_turns"),
        ([A1, A2, A3], 1, ("a", "u", 1), "user 'a' has 3 turns waiting, and max_waiting_user_turns"),
        ([A1, A2, B1, B2, C1], 1, ("d", "s", 1), "this deployment has 5 turns waiting, and max_waiting_turns"),
        ([A1], 60, A3, "user 'a' has 60 bytes waiting, and max_waiting_user_bytes"),
        ([A1, B1], 60, C1, "this deployment has 120 bytes waiting, and max_waiting_bytes"),
    ],
)
def test_each_line_has_its_bound_and_says_which(
    turns: list[tuple[str, str, int]], size: int, asked: tuple[str, str, int], told: str
) -> None:
    backlog = filled(*(turn(*each) for each in turns), size=size)
    refusal = backlog.refusal(turn(*asked), size, 10.0)
    assert isinstance(refusal, OverloadedError)
    assert str(refusal) == f"{told} allows no more: ask again in 10.0 s"
    assert refusal.retry_after_s == 10.0
    # What has begun makes room.
    backlog.remove(turn(*turns[0]))
    assert backlog.refusal(turn(*asked), size, 10.0) is None


def test_a_line_in_which_nothing_waits_takes_any_message() -> None:
    assert Backlog(NARROW).refusal(turn("a", "s", 1), 10_000, 0.0) is None


def test_a_turn_that_waits_may_be_asked_for_again_and_waits_once() -> None:
    backlog = filled(turn("a", "s", 1), turn("a", "s", 2))
    assert backlog.refusal(turn("a", "s", 2), 1, 3.0) is None
    backlog.add(turn("a", "s", 2), 1, 3.0)
    assert len(backlog) == 2
    backlog.remove(turn("a", "s", 2))
    assert turn("a", "s", 2) in backlog
    backlog.remove(turn("a", "s", 2))
    assert turn("a", "s", 2) not in backlog


@pytest.mark.parametrize(("now_s", "after_s"), [(0.2, 1.0), (7.44, 7.4), (1_000.0, 60.0)])
def test_when_to_ask_again_is_as_long_as_the_first_has_waited_within_bounds(now_s: float, after_s: float) -> None:
    refusal = filled(turn("a", "s", 1), turn("a", "s", 2)).refusal(turn("a", "s", 3), 1, now_s)
    assert refusal is not None
    assert refusal.retry_after_s == after_s


@settings(max_examples=tries(200))
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("st"), st.integers(1, 4), st.integers(1, 70))))
def test_no_line_is_ever_longer_than_it_may_be(steps: list[tuple[bool, str, str, int, int]]) -> None:
    backlog = Backlog(NARROW)
    waiting: dict[TurnKey, int] = {}
    for comes, user, session, number, size in steps:
        each = turn(user, session, number)
        if not comes:
            if each in waiting:
                del waiting[each]
                backlog.remove(each)
        elif backlog.refusal(each, size, 0.0) is None and each not in waiting:
            waiting[each] = size
            backlog.add(each, size, 0.0)
        assert len(backlog) == len(waiting) <= 5
        for name in "ab":
            of_user = {key: size for (key, _), size in waiting.items() if key.user == name}
            turns_of_user = [key for key, _ in waiting if key.user == name]
            assert len(turns_of_user) <= 3
            assert all(turns_of_user.count(key) <= 2 for key in of_user)
            sizes = [size for (key, _), size in waiting.items() if key.user == name]
            assert sum(sizes) <= 100 or len(sizes) == 1
