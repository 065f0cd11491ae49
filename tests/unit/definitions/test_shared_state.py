"""The state as the calls of one response share it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from actors.definitions.tools import state as state_module
from actors.definitions.tools.context import Actions
from actors.definitions.tools.state import State, StepState
from actors.errors.user_code import in_thread
from tests.support.polling import until


def two_calls(**base: object) -> tuple[StepState, Actions, State, Actions, State]:
    """Two calls of one response, over a state."""
    shared = StepState()
    first, second = Actions(shared), Actions(shared)
    return shared, first, first.state_over(base), second, second.state_over(base)


def merged(*calls: Actions) -> dict[str, object]:
    """The state that the event of the responses stores."""
    actions = Actions()
    for call in calls:
        actions.merge(call)
    return dict(actions.freeze().state_delta)


def test_the_value_that_was_written_last_is_stored_whichever_call_wrote_it() -> None:
    _, first, one, second, two = two_calls(n=1)
    two["n"] = 2
    one["n"] = two["n"] + one["n"]
    assert (two["n"], "m" in two, len(two)) == (4, False, 1)
    two["m"] = 1
    assert list(one) == ["n", "m"]
    assert merged(first, second) == {"n": 4, "m": 1}


def test_a_list_that_both_calls_change_in_place_has_what_both_have_added() -> None:
    stored: list[object] = []
    _, first, one, second, two = two_calls(cart=stored)
    one["cart"].append("a")
    two["cart"].append("b")
    # The first call is over: what it has done is measured and copied.
    first.state_delta = dict(first.state_delta)
    two["cart"].append("c")
    assert merged(first, second) == {"cart": ["a", "b", "c"]}
    assert stored == []


def test_a_list_that_another_call_has_replaced_is_not_brought_back() -> None:
    _, first, one, second, two = two_calls(cart=[])
    one["cart"].append("a")
    two["cart"] = ["b"]
    assert merged(first, second) == {"cart": ["b"]}


def test_a_list_of_one_call_that_the_other_changes_in_place_is_stored_with_the_change() -> None:
    _, first, one, second, two = two_calls()
    given = ["a"]
    one["cart"] = given
    two["cart"].append("b")
    given.append("c")
    assert merged(second, first) == {"cart": ["a", "b", "c"]}


def test_a_key_that_a_call_deletes_is_gone_for_the_others() -> None:
    _, first, one, second, two = two_calls(k=1)
    del one["k"]
    assert ("k" in two, two.get("k", 2)) == (False, 2)
    assert merged(first, second) == {"k": None}


async def add_in_threads(shared: StepState, one: Callable[[], None], two: Callable[[], None]) -> None:
    """Run two functions in threads: the second begins once the first has looked at the state, and waits for it."""
    looked, go_on = threading.Event(), threading.Event()

    def first() -> None:
        one()
        looked.set()
        go_on.wait(30)

    running = asyncio.create_task(in_thread(first))
    await asyncio.to_thread(looked.wait, 30)
    waiting = asyncio.create_task(in_thread(two))
    await asyncio.to_thread(until, lambda: shared.waiting == 1 or waiting.done())
    go_on.set()
    await running
    await waiting


async def test_a_function_that_has_read_the_state_is_alone_with_it_until_it_returns() -> None:
    shared, _, one, _, two = two_calls(cart=[])
    ended: list[str] = []

    def add(state: State, item: str) -> None:
        state["cart"] = [*state["cart"], item]

    def second() -> None:
        add(two, "b")
        ended.append("b")

    await add_in_threads(shared, lambda: add(one, "a"), second)
    assert (one["cart"], ended) == (["a", "b"], ["b"])


async def test_a_function_that_waits_for_one_that_waits_for_it_goes_on_in_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state_module, "WAIT_S", 0.01)
    _, _, one, _, two = two_calls(n=0)
    looked, seen = threading.Event(), threading.Event()

    def first() -> bool:
        one["n"] += 1
        looked.set()
        return seen.wait(30)

    def second() -> bool:
        is_first = looked.wait(30)
        two["n"] += 1
        seen.set()
        return is_first

    assert all(await asyncio.gather(in_thread(first), in_thread(second)))
    assert one["n"] == 2
    assert "which another one beside it uses" in caplog.text


async def test_a_function_waits_no_longer_than_its_response_is_under_way() -> None:
    shared, _, one, _, two = two_calls(n=0)
    go_on = threading.Event()

    def never_ends() -> None:
        one["n"] = 1
        go_on.wait(30)

    stuck = asyncio.create_task(in_thread(never_ends))
    await asyncio.to_thread(until, lambda: "n" in shared.values)
    waiting = asyncio.create_task(in_thread(two.get, "n"))
    await asyncio.to_thread(until, lambda: shared.waiting == 1)
    shared.end_step()
    assert await waiting == 1
    go_on.set()
    await stuck
