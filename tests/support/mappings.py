"""Steps at random with mappings that have to do what a dictionary does."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from hypothesis import strategies as st

START: dict[str, Any] = {"a": 1, "b": None, "user:c": [1]}
"""What is in them at the beginning."""

_KEYS = ("a", "b", "user:c", "temp:d", "never")

_ACTS: dict[str, Callable[[MutableMapping[str, Any], str], object]] = {
    "in": lambda state, key: key in state,
    "get": lambda state, key: state.get(key, "default"),
    "item": lambda state, key: state[key],
    "set": lambda state, key: state.__setitem__(key, [2]),
    "none": lambda state, key: state.__setitem__(key, None),
    "setdefault": lambda state, key: state.setdefault(key, "default"),
    "del": lambda state, key: state.__delitem__(key),
    "pop": lambda state, key: state.pop(key),
    "pop or": lambda state, key: state.pop(key, "default"),
    "popitem": lambda state, key: state.popitem(),
    "clear": lambda state, key: state.clear(),
    "update": lambda state, key: state.update({key: 3, "a": 4}),
    "len": lambda state, key: (len(state), bool(state), sorted(state)),
}

STEPS = st.lists(st.tuples(st.sampled_from(list(_ACTS)), st.sampled_from(_KEYS)), max_size=20)
"""What is done with them, and the key."""


def check_like_a_dict(
    states: Sequence[MutableMapping[str, Any]], steps: Sequence[tuple[str, str]], between: Callable[[], object] = lambda: None
) -> None:
    """Do the steps with the mappings in turn, which share what is in them, and with a dictionary. All have to give the same.

    Args:
        between: called after each step.
    """
    known = dict(START)
    for place, (act, key) in enumerate(steps):
        state = states[place % len(states)]
        if act == "popitem" and known:
            # Keys that were deleted and set again may stand elsewhere than in a dictionary.
            key, value = state.popitem()
            assert value == known.pop(key)
        else:
            assert _tried(_ACTS[act], state, key) == _tried(_ACTS[act], known, key), act
        between()
        for each in states:
            assert (dict(each), len(each), each == known) == (known, len(known), True), act


def _tried(act: Callable[[MutableMapping[str, Any], str], Any], state: MutableMapping[str, Any], key: str) -> Any:
    try:
        return act(state, key)
    except KeyError:
        return KeyError
