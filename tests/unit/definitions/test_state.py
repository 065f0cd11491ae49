"""The state of code is a mapping like any other, which the calls of one response share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given

from actors.definitions.tools import state as state_module
from actors.definitions.tools.context import Actions
from actors.definitions.tools.state import State, StepState
from actors.errors.user_code import in_thread
from actors.layers.graphs.definitions.context import RunState
from actors.messages.codec import plain
from actors.messages.json_types import StateDelta
from tests.support.mappings import START, STEPS, check_like_a_dict
from tests.support.polling import until


def _alone() -> list[Actions]:
    return [Actions()]


def _calls() -> list[Actions]:
    shared = StepState()
    return [Actions(shared), Actions(shared)]


def _function() -> list[Actions]:
    return [Actions(RunState(lambda: START))]


def _stored(actions: Sequence[Actions]) -> StateDelta:
    together = Actions()
    for each in actions:
        together.merge(each)
    return {**START, **plain(together.freeze().state_delta)}


@pytest.mark.parametrize("made", [_alone, _calls, _function])
@given(steps=STEPS)
def test_it_does_all_that_a_dictionary_does(made: Callable[[], list[Actions]], steps: list[tuple[str, str]]) -> None:
    actions = made()
    states: list[State] = [each.state_over(START) for each in actions]
    check_like_a_dict(states, steps)
    stored = _stored(actions)
    assert {key: states[0].get(key) for key in stored} == stored


def test_what_was_deleted_is_none_for_those_who_read_the_log() -> None:
    state = State({"a": 1, "b": 2})
    del state["a"]
    state["c"] = None
    assert (state.delta, dict(state)) == ({"a": None, "c": None}, {"b": 2, "c": None})


def test_a_function_of_a_graph_that_has_deleted_a_key_does_not_find_it_when_that_is_stored() -> None:
    log: StateDelta = {"a": 1}
    actions = Actions(RunState(lambda: log))
    state = actions.state_over({})
    state.clear()
    log.update(plain(actions.state_delta))
    actions.forget_state()
    assert (dict(state), log) == ({}, {"a": None})
    state["a"] = None
    assert dict(state) == {"a": None}


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
