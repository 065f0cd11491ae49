"""Which runs go on alone, when they begin, and when they are given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages.protocol.turns import RunLosses
from actors.rules.suspects import (
    MAX_ATTEMPTS,
    MAX_BEGINNING,
    MAX_LOSSES,
    MAX_RUNNING,
    Waiting,
    is_given_up,
    is_suspect,
    next_alone,
    waiting_run,
)

AGENTS = ("expert",)
ONCE = RunLosses(times=1, with_runner=True)
WAITING = st.lists(st.builds(Waiting, st.floats(0, 100), st.booleans()), max_size=8)


@pytest.mark.parametrize(
    ("lost", "tools", "suspected"),
    [
        pytest.param({"a": RunLosses(times=1)}, ("pay",), True, id="its tool ran when its process was lost"),
        pytest.param({"b": RunLosses(times=1)}, ("pay",), False, id="another run was lost"),
        pytest.param({"a": RunLosses(times=1)}, (), False, id="it waited for its model"),
        pytest.param({"a": RunLosses(times=2)}, (), True, id="it waited for its model twice"),
        *(pytest.param({"a": RunLosses(times=n)}, ("expert",) * 2, False, id=f"it waited for agents {n}") for n in (1, 2, 3)),
        pytest.param({"a": RunLosses(times=1)}, ("expert", "pay"), True, id="it waited for an agent and a tool"),
        pytest.param({"a": RunLosses(times=1, ran_code=True)}, (), True, id="code of the program counts as a tool"),
        pytest.param({"a": ONCE, "": ONCE}, ("pay",), False, id="the first loss of a Runner suspects no run"),
        pytest.param({"": RunLosses(times=2, with_runner=True)}, (), True, id="the second one all of its turn"),
        pytest.param({"a": RunLosses(alone=1)}, (), True, id="once alone, always alone"),
    ],
)
def test_a_run_is_suspected_of_a_loss(lost: dict[str, RunLosses], tools: tuple[str, ...], suspected: bool) -> None:
    assert is_suspect("a", lost, {"a": tools} if tools else {}, AGENTS) is suspected


def test_only_what_happens_to_a_run_that_is_alone_counts_against_it() -> None:
    assert not is_given_up("a", {"a": RunLosses(times=100, alone=1, own=MAX_LOSSES - 1)})
    assert is_given_up("a", {"a": RunLosses(own=MAX_LOSSES)})
    assert is_given_up("a", {"a": RunLosses(alone=MAX_ATTEMPTS)})
    assert not is_given_up("b", {"a": RunLosses(alone=MAX_ATTEMPTS)})


def test_of_those_that_were_lost_with_a_runner_the_one_that_began_last_is_first() -> None:
    waiting = [
        waiting_run(run, {run: RunLosses(begun_s=begun_s), "": RunLosses(times=1)}) for run, begun_s in (("a", 3), ("b", 7))
    ]
    assert next_alone(waiting, (), 0) == 1
    assert next_alone(waiting[:1], waiting[1:], 1) is None


@given(WAITING, WAITING, st.integers(0, MAX_RUNNING))
def test_what_begins_is_bounded_and_what_may_begin_does(waiting: list[Waiting], beginning: list[Waiting], running: int) -> None:
    index = next_alone(waiting, beginning, running)
    if running >= MAX_RUNNING or len(beginning) >= MAX_BEGINNING:
        assert index is None
    elif index is None:
        assert all(each.with_runner for each in waiting)
        assert not waiting or any(each.with_runner for each in beginning)
    else:
        assert not (waiting[index].with_runner and any(each.with_runner for each in beginning))
