"""What user code has of a session's state, and of the event loop in which a sync tool runs."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import pytest
from hypothesis import given

from actors.definitions.tools.state import State
from runtime.integrations.adk.state import LiveState, StateCopy
from runtime.integrations.adk.tools import in_own_loop
from tests.support.mappings import START, STEPS, check_like_a_dict


def test_it_knows_what_was_changed_and_leaves_the_stored_values_alone() -> None:
    stored = {"kept": [1], "list": [1], "old": 1, "flag": 1, "same": {"a": 1}}
    state = StateCopy(stored)
    assert state.changes() == {}
    state["list"].append(2)
    state.update(new="n")
    state["flag"] = True
    state["same"] = {"a": 1}
    assert state.setdefault("more", []) == []
    assert state.pop("old") == 1
    assert state.pop("never", None) is None
    assert (state.get("kept"), state.get("never", 3), dict(state)["list"], {**state}["list"]) == ([1], 3, [1, 2], [1, 2])
    assert state.changes() == {"list": [1, 2], "new": "n", "flag": True, "more": [], "old": None}
    assert stored == {"kept": [1], "list": [1], "old": 1, "flag": 1, "same": {"a": 1}}


def test_values_that_are_read_in_any_way_are_copies() -> None:
    stored: dict[str, object] = {"a": [1]}
    for read in (dict, lambda state: {**state}, copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))):
        read(StateCopy(stored))["a"].append(2)
    for value in (*StateCopy(stored).values(), *[value for _, value in StateCopy(stored).items()]):
        value.append(2)
    assert stored == {"a": [1]}


def test_it_is_rebased_on_a_newer_state_with_what_is_not_stored_yet() -> None:
    state = StateCopy({"a": 1, "b": 1})
    state["a"] = 2
    del state["b"]
    state.rebase({"a": 5, "b": 5, "c": 5})
    assert (dict(state), state.changes()) == ({"a": 2, "c": 5}, {"a": 2, "b": None})
    state.stored({"a": 2})
    assert (dict(state), state.changes()) == ({"a": 2}, {})
    with pytest.raises(KeyError):
        state.pop("b")
    state.clear()
    assert state.changes() == {"a": None}
    with pytest.raises(KeyError):
        state.popitem()


def test_over_the_state_of_a_call_it_writes_at_once_and_keeps_what_cannot_be_stored() -> None:
    stored = {"kept": [1], "old": 1, "list": [1]}
    ours = State(stored)
    state = LiveState(ours)
    state["list"].append(2)
    state["new"] = "n"
    state["odd"] = {1}
    assert state.pop("old") == 1
    ours["other"] = "by another call"
    assert state == {"kept": [1], "list": [1, 2], "new": "n", "odd": {1}, "other": "by another call"}
    assert dict(state) == {**state} == state.copy() == copy.deepcopy(state)
    assert ("old" in state, "odd" in state, state.get("old"), len(state)) == (False, True, None, 5)
    assert set(state.keys()) == {"kept", "list", "new", "odd", "other"}
    ours.record_changes()
    assert ours.delta == {"list": [1, 2], "new": "n", "old": None, "other": "by another call"}
    assert state.changes() == {"odd": {1}}
    del state["odd"]
    assert state.changes() == {}
    with pytest.raises(KeyError):
        del state["odd"]
    assert stored == {"kept": [1], "old": 1, "list": [1]}


@given(STEPS)
def test_it_does_all_that_a_dictionary_does(steps: list[tuple[str, str]]) -> None:
    check_like_a_dict([StateCopy(START)], steps)
    check_like_a_dict([LiveState(State(START))], steps)
    rebased = StateCopy(START)
    check_like_a_dict([rebased], steps, between=lambda: rebased.rebase(START))


class Failing:
    """A tool whose error holds the event loop in a circle of references: the error, its traceback, the loop's frames."""

    async def run_async(self, args: object, tool_context: object) -> Any:
        raise LookupError


def test_a_loop_is_closed_with_its_thread_also_when_only_an_error_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    loops = [asyncio.new_event_loop()]
    loop = ref(loops[0])
    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as thread:
        patch.setattr(sys, "unraisablehook", unraisable.append)
        # Of a circle, what is older is ended first: here the loop's sockets.
        patch.setattr(asyncio, "new_event_loop", loops.pop)
        error = thread.submit(in_own_loop, Failing(), {}, None).exception()
    assert isinstance(error, LookupError)
    assert loop() is not None
    del error
    gc.collect()
    assert loop() is None
    # A loop that was not closed would warn, which is an error here.
    assert unraisable == []
