"""Which runs go on alone, when they begin, and when they are given up."""

from __future__ import annotations

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
WAITING = st.lists(st.builds(Waiting, st.floats(0, 100), st.booleans()), max_size=8)


def test_a_run_is_suspected_whose_tool_ran_when_its_process_was_lost() -> None:
    lost = {"a": RunLosses(times=1)}
    assert is_suspect("a", lost, {"a": ("pay",)}, AGENTS)
    assert not is_suspect("b", lost, {"b": ("pay",)}, AGENTS)


def test_a_run_that_waited_for_its_model_is_suspected_from_the_second_loss_on() -> None:
    assert not is_suspect("a", {"a": RunLosses(times=1)}, {}, AGENTS)
    assert is_suspect("a", {"a": RunLosses(times=2)}, {}, AGENTS)


def test_a_run_that_waits_for_agents_is_not_suspected_for_them() -> None:
    for times in (1, 2, 3):
        assert not is_suspect("a", {"a": RunLosses(times=times)}, {"a": ("expert", "expert")}, AGENTS)
    assert is_suspect("a", {"a": RunLosses(times=1)}, {"a": ("expert", "pay")}, AGENTS)


def test_code_of_the_program_is_suspected_like_a_tool() -> None:
    assert is_suspect("a", {"a": RunLosses(times=1, ran_code=True)}, {}, AGENTS)


def test_the_first_loss_of_a_runner_suspects_no_run_and_the_second_all_of_its_turn() -> None:
    once = RunLosses(times=1, with_runner=True)
    assert not is_suspect("a", {"a": once, "": once}, {"a": ("pay",)}, AGENTS)
    assert is_suspect("b", {"": RunLosses(times=2, with_runner=True)}, {}, AGENTS)


def test_who_was_alone_once_stays_alone() -> None:
    assert is_suspect("a", {"a": RunLosses(alone=1)}, {}, AGENTS)


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
