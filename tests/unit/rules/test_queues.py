"""Owners take turns, and what waits is bounded for each session, user and deployment."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import OverloadedError
from actors.messages.config import Limits
from actors.messages.session import SessionKey, TurnKey
from actors.rules.queues import Backlog, FairQueue, weights
from tests.support.tries import tries

Item = tuple[str, str, int]
"""The user, the session, and the number of the item in it."""


def filled(*items: Item) -> FairQueue[Item]:
    queue: FairQueue[Item] = FairQueue()
    for item in items:
        queue.add(item, *item[:2])
    return queue


def test_users_take_turns_and_so_do_the_sessions_of_each() -> None:
    queue = filled(("ada", "s", 1), ("ada", "s", 2), ("ada", "t", 1), ("bob", "s", 1), ("bob", "s", 2))
    taken = [queue.take() for _ in range(len(queue))]
    assert taken == [("ada", "s", 1), ("bob", "s", 1), ("ada", "t", 1), ("bob", "s", 2), ("ada", "s", 2)]
    with pytest.raises(IndexError, match="nothing waits"):
        queue.take()


def test_a_user_with_a_weight_is_served_so_often_in_a_row_and_its_sessions_take_turns() -> None:
    queue: FairQueue[Item] = FairQueue(weights({"ada": 3}))
    for item in [("ada", "s", 1), ("ada", "s", 2), ("ada", "t", 1), ("ada", "s", 3), ("bob", "s", 1), ("bob", "s", 2)]:
        queue.add(item, *item[:2])
    taken = [queue.take() for _ in range(len(queue))]
    assert taken == [("ada", "s", 1), ("ada", "t", 1), ("ada", "s", 2), ("bob", "s", 1), ("ada", "s", 3), ("bob", "s", 2)]


def test_a_turn_that_ends_early_is_not_made_up_for() -> None:
    queue: FairQueue[Item] = FairQueue(weights({"ada": 2, "bob": 2}))
    for item in [("ada", "s", 1), ("bob", "s", 1), ("bob", "s", 2), ("bob", "s", 3)]:
        queue.add(item, *item[:2])
    assert queue.take() == ("ada", "s", 1)
    queue.add(("ada", "s", 2), "ada", "s")
    assert [queue.take()[:2] for _ in range(4)] == [("bob", "s"), ("bob", "s"), ("ada", "s"), ("bob", "s")]


def test_the_turn_of_one_that_waits_no_more_is_over() -> None:
    queue: FairQueue[Item] = FairQueue(weights({"ada": 3, "bob": 2}))
    for item in [("ada", "s", 1), ("ada", "s", 2), ("bob", "s", 1), ("bob", "s", 2), ("cyd", "s", 1)]:
        queue.add(item, *item[:2])
    assert queue.take() == ("ada", "s", 1)
    assert queue.remove(("ada", "s", 2))
    assert [queue.take() for _ in range(3)] == [("bob", "s", 1), ("bob", "s", 2), ("cyd", "s", 1)]


@pytest.mark.parametrize(("user", "weight"), [("desk", 4), ("batch-1", 2), ("batch-x", 2), ("other", 1), ("", 1)])
def test_a_weight_stands_under_an_id_or_a_pattern(user: str, weight: int) -> None:
    weight_of = weights({"batch-*": 2, "desk": 4})
    assert weight_of is not None
    assert weight_of(user) == weight
    assert weights({}) is None


def test_a_place_is_told_and_nothing_is_taken_for_it() -> None:
    items = [("ada", "s", 1), ("ada", "s", 2), ("ada", "t", 1), ("bob", "s", 1), ("bob", "s", 2)]
    queue = filled(*items)
    places = {item: queue.before(item) for item in items}
    assert [queue.take() for _ in range(len(queue))] == sorted(items, key=places.__getitem__)
    with pytest.raises(KeyError):
        queue.before(("ada", "s", 1))


def test_an_item_waits_once_and_is_taken_out_before_its_turn() -> None:
    queue = filled(("ada", "s", 1), ("ada", "s", 2), ("bob", "s", 1))
    queue.add(("ada", "s", 1), "ada", "s")
    assert (len(queue), list(queue)) == (3, [("ada", "s", 1), ("ada", "s", 2), ("bob", "s", 1)])
    assert queue.remove(("bob", "s", 1))
    assert not queue.remove(("bob", "s", 1))
    assert ("bob", "s", 1) not in queue
    assert [queue.take(), queue.take()] == [("ada", "s", 1), ("ada", "s", 2)]


names = st.sampled_from("abc")
steps = st.lists(
    min_size=12,
    elements=st.one_of(st.tuples(st.just("add"), names, names), st.just("take"), st.tuples(st.just("remove"), st.integers(0, 9))),
)


@settings(max_examples=tries(300))
@given(steps, st.dictionaries(names, st.integers(1, 4)))
def test_no_owner_waits_while_another_one_is_served_more_often_than_its_weight(
    steps: list[object], of_users: dict[str, int]
) -> None:
    queue: FairQueue[Item] = FairQueue(weights(of_users))
    added: Counter[tuple[str, str]] = Counter()
    taken: list[Item] = []
    served_since: dict[str, Counter[str]] = {}
    for step in steps:
        match step:
            case ("add", str(user), str(session)):
                added[user, session] += 1
                queue.add((user, session, added[user, session]), user, session)
                served_since.setdefault(user, Counter())
            case "take" if len(queue):
                places = {item: queue.before(item) for item in queue}
                user, session, number = queue.take()
                assert places[user, session, number] == 0
                assert all(number > other for u, s, other in taken if (u, s) == (user, session))
                taken.append((user, session, number))
                for waiting, others in served_since.items():
                    others[user] += waiting != user
                    assert waiting == user or others[user] <= of_users.get(user, 1)
                served_since[user].clear()
            case ("remove", int(place)) if len(queue) > place:
                queue.remove(list(queue)[place])
        served_since = {user: since for user, since in served_since.items() if any(item[0] == user for item in queue)}
    assert len({*taken, *queue}) == len(taken) + len(queue)


NARROW = Limits.model_construct(
    max_waiting_session_turns=2,
    max_waiting_user_turns=3,
    max_waiting_turns=5,
    max_waiting_user_bytes=100,
    max_waiting_bytes=150,
)


def turn(user: str, session: str, number: int) -> TurnKey:
    return SessionKey("app", user, session), f"e-{number}"


def backlog_with(*turns: TurnKey, size: int = 1) -> Backlog:
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
    backlog = backlog_with(*(turn(*each) for each in turns), size=size)
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
    backlog = backlog_with(turn("a", "s", 1), turn("a", "s", 2))
    assert backlog.refusal(turn("a", "s", 2), 1, 3.0) is None
    backlog.add(turn("a", "s", 2), 1, 3.0)
    assert len(backlog) == 2
    backlog.remove(turn("a", "s", 2))
    assert turn("a", "s", 2) in backlog
    backlog.remove(turn("a", "s", 2))
    assert turn("a", "s", 2) not in backlog


@pytest.mark.parametrize(("now_s", "after_s"), [(0.2, 1.0), (7.44, 7.4), (1_000.0, 60.0)])
def test_when_to_ask_again_is_as_long_as_the_first_has_waited_within_bounds(now_s: float, after_s: float) -> None:
    refusal = backlog_with(turn("a", "s", 1), turn("a", "s", 2)).refusal(turn("a", "s", 3), 1, now_s)
    assert refusal is not None
    assert refusal.retry_after_s == after_s


@settings(max_examples=tries(200))
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("st"), st.integers(1, 4), st.integers(1, 70))))
def test_no_line_is_ever_longer_than_it_may_be(comings: list[tuple[bool, str, str, int, int]]) -> None:
    backlog = Backlog(NARROW)
    waiting: dict[TurnKey, int] = {}
    for comes, user, session, number, size in comings:
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
