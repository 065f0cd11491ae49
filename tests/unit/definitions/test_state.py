"""The state of code is a mapping like any other: what was deleted is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given

from actors.definitions.tools.context import Actions
from actors.definitions.tools.state import State, StepState
from actors.layers.graphs.definitions.context import RunState
from actors.messages.codec import plain
from actors.messages.json_types import StateDelta
from tests.support.mappings import START, STEPS, check_like_a_dict


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
