"""The state as the functions of one graph share it: what one has written the others read before it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.definitions.tools.context import Actions
from actors.definitions.tools.state import State
from actors.errors import NotEncodableError
from actors.errors.user_code import in_thread
from actors.layers.graphs.definitions.context import RunState
from actors.messages.codec import plain
from actors.messages.event import Event, EventActions
from tests.support.tries import tries

KEYS = ("a", "b", "temp:c")
FUNCTIONS = 3


class Functions:
    """Functions of one graph, and the log to which their events go."""

    def __init__(self, **stored: Any) -> None:
        self.stored: dict[str, Any] = stored
        self.shared = RunState(lambda: self.stored)
        self.actions = [Actions(self.shared) for _ in range(FUNCTIONS)]
        self.states: list[State] = [each.state_over({}) for each in self.actions]
        self.unstored: list[dict[str, Any]] = []

    def flush(self, number: int) -> dict[str, Any]:
        """An event of a function sets out for the log."""
        delta: dict[str, Any] = plain(self.actions[number].state_delta)
        self.actions[number].forget_state()
        self.unstored.append(delta)
        return delta

    def store(self, *, reads_again: bool = False) -> None:
        """The oldest event arrives; the state may be read again, as it is after an agent has ended."""
        delta = self.unstored.pop(0)
        self.stored.update(plain(delta))
        if reads_again:
            self.stored = plain(self.stored)
        self.shared.note_stored(Event(actions=EventActions(state_delta=delta)))

    def end(self, number: int) -> dict[str, Any]:
        delta = self.flush(number)
        while self.unstored:
            self.store()
        return delta


def test_what_an_agent_elsewhere_has_stored_since_is_newer() -> None:
    both = Functions(n=1)
    one, _, three = both.states
    one["n"] = 2
    both.stored = {"n": 1, "m": 0}
    assert three["n"] == 2
    both.stored = {"n": 7, "m": 0}
    assert (three["n"], one["n"]) == (7, 2)


def test_a_list_that_another_function_has_replaced_is_not_brought_back() -> None:
    both = Functions(cart=[])
    one, two, _ = both.states
    one["cart"].append("a")
    two["cart"] = ["b"]
    assert (both.end(1), both.end(0)) == ({"cart": ["b"]}, {})
    with pytest.raises(NotEncodableError):
        one["cart"] = object()
    assert one["cart"] == ["b"]


async def test_sync_functions_count_one_after_the_other() -> None:
    both = Functions(n=0)

    def add(state: State) -> Callable[[], None]:
        def call() -> None:
            for _ in range(200):
                state["n"] = state["n"] + 1

        return call

    await asyncio.gather(*(in_thread(add(state)) for state in both.states))
    assert both.states[0].to_dict()["n"] in (200, 400, 600)
    assert max(state["n"] for state in both.states) == 600


class Shared:
    """How google-adk's functions see the state: one dictionary for all, and for each what it has written since its last event.

    What is taken back is otherwise here: there the others go on seeing it.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[tuple[int | None, Any]]] = {key: [] for key in KEYS}
        self.deltas: list[dict[str, Any]] = [{} for _ in range(FUNCTIONS)]
        self.unstored: list[dict[str, Any]] = []

    def read(self, number: int, key: str) -> Any:
        if key in self.deltas[number]:
            return self.deltas[number][key]
        return self.history[key][-1][1] if self.history[key] else None

    def write(self, number: int, key: str, value: Any) -> None:
        self.deltas[number][key] = value
        self.history[key].append((number, value))

    def flush(self, number: int) -> dict[str, Any]:
        delta, self.deltas[number] = self.deltas[number], {}
        self.unstored.append(delta)
        return delta

    def store(self) -> None:
        for key, value in self.unstored.pop(0).items():
            self.history[key] = [(None, value)]

    def take_back(self, number: int) -> None:
        # Of what it has sent to the log nothing is taken back.
        kept = {key for delta in self.unstored for key in delta}
        for key in self.deltas[number].keys() - kept:
            self.history[key] = [each for each in self.history[key] if each[0] != number]
        self.deltas[number] = {}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "flush", "store", "take back"]),
        st.integers(0, FUNCTIONS - 1),
        st.sampled_from(KEYS),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=tries(300), deadline=None)
@given(STEPS)
def test_however_functions_read_and_write_each_sees_what_one_session_would_show(steps: list[tuple[str, int, str, int]]) -> None:
    found, expected = Functions(), Shared()
    for what, number, key, value in steps:
        match what:
            case "read":
                assert found.states[number].get(key) == expected.read(number, key)
            case "write":
                # Values differ, so that it shows which is read.
                value = 10 * value + number
                found.states[number][key] = value
                expected.write(number, key, value)
            case "flush":
                assert found.flush(number) == expected.flush(number)
            case "store" if found.unstored:
                found.store(reads_again=value == 0)
                expected.store()
            case "take back":
                kept = {each for delta in found.unstored for each in delta}
                found.shared.take_back(found.actions[number].state_delta, kept)
                found.actions[number].forget_state()
                expected.take_back(number)
    for number in range(FUNCTIONS):
        for key in KEYS:
            assert found.states[number].get(key) == expected.read(number, key)


@settings(max_examples=tries(200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["append", "hold", "flush", "store"]), st.integers(0, FUNCTIONS - 1)), max_size=40))
def test_nothing_is_lost_that_functions_append_to_one_list(steps: list[tuple[str, int]]) -> None:
    found = Functions(cart=[])
    held: dict[int, Any] = {}
    appended: list[set[int]] = [set() for _ in range(FUNCTIONS)]
    for index, (what, number) in enumerate(steps):
        match what:
            case "append":
                cart: Any = held.get(number, found.states[number]["cart"])
                cart.append(index)
                appended[number].add(index)
            case "hold":
                held[number] = found.states[number]["cart"]
            case "flush":
                delta = found.flush(number)
                assert appended[number] <= set(delta.get("cart", found.stored["cart"])) | {
                    each for sent in found.unstored for each in sent.get("cart", ())
                }
            case "store" if found.unstored:
                found.store(reads_again=index % 2 == 0)
    for number in range(FUNCTIONS):
        found.end(number)
    assert sorted(found.stored["cart"]) == sorted(each for own in appended for each in own)
