"""Owners take turns, and what one of them has waiting is no matter of the others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rules.queues import FairQueue, weights
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
@given(steps)
def test_no_owner_waits_while_another_one_is_served_twice(steps: list[object]) -> None:
    check_turns(steps, {})


@settings(max_examples=tries(300))
@given(steps, st.dictionaries(names, st.integers(1, 4)))
def test_no_owner_waits_while_another_one_is_served_more_often_than_its_weight(
    steps: list[object], of_users: dict[str, int]
) -> None:
    check_turns(steps, of_users)


def check_turns(steps: list[object], of_users: dict[str, int]) -> None:
    """Play steps. Each user who waits is served before any other one is served more often than its weight."""
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
