"""What is measured beside loads: commits of recorded turns, and what a simulated log makes of them; waits for a core."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from actors.interfaces.stores import AddEvent, CreateSession, PutTurn
from tests.capacity.cluster import Cluster
from tests.capacity.measuring.commits import Commit, committed, recorded_writes, spread, taken_from
from tests.capacity.measuring.takeovers import takeovers_ms
from tests.capacity.measuring.wakes import wake_ms, ways_ms
from tests.capacity.simulation import Load, simulate
from tests.capacity.test_simulation import COSTS
from tests.capacity.unit_costs import LOG_PAGES, CommitCosts

LOG = CommitCosts(flush_ms=0.2, flush_write_ms=0.1, pages=10, write_pages=2, checkpoint_cpu_ms=3.0, checkpoint_flush_ms=20.0)


def test_turns_write_their_message_and_then_their_answer_and_both_can_be_committed_again_in_groups() -> None:
    written = recorded_writes(sessions=4, turns=3)
    assert [[type(write) for write in part] for part in written[0]] == [
        [CreateSession, AddEvent, PutTurn],
        *[[AddEvent, PutTurn]] * 5,
    ]
    few, many = committed(written, 1), committed(written, 4)
    assert (len(few), len(many)) == (4 * 5, 5)
    assert all(before.pages < after.pages for before, after in pairwise(few[:5]))
    assert sum(each.more_pages for each in few) > sum(each.more_pages for each in many) > 0
    assert all(each.cpu_ms > 0 for each in few)


def test_the_log_is_full_after_a_thousand_pages_and_the_commit_that_fills_it_empties_it() -> None:
    done = committed(recorded_writes(sessions=2, turns=80), 1)
    first = next(number for number, each in enumerate(done) if each.is_checkpoint)
    assert done[first - 1].pages < LOG_PAGES <= done[first].pages
    assert done[first + 1].pages < LOG_PAGES / 10


def test_costs_follow_from_commits_of_one_write_and_of_many() -> None:
    few = [Commit(cpu_ms, 0.2, 500, 10) for cpu_ms in (0.5, 1.0, 1.5)] + [Commit(4.0, 20.2, LOG_PAGES, 10)]
    many = [Commit(5.0, 6.5, 500, 136)] * 3
    costs = taken_from(few, many, 64)
    assert (costs.flush_ms, costs.flush_write_ms) == (0.2, 0.1)
    assert (costs.pages, costs.write_pages) == (10, 2)
    assert (costs.checkpoint_cpu_ms, costs.checkpoint_flush_ms) == (3.0, 20.0)
    assert costs.spread == [0.5, 1.0, 1.5]
    assert costs.flush_s(64) == pytest.approx(6.5 / 1_000)
    assert costs.log_pages(64) == 136


def test_a_turn_in_so_many_waits_for_a_checkpoint() -> None:
    costs = msgspec.structs.replace(COSTS, commits=LOG)
    cluster, load = Cluster(cores=4, databases=0), Load(sessions=1, turns=1_000)
    outcome = simulate(costs, cluster, load)
    quick = simulate(msgspec.structs.replace(costs, commits=CommitCosts(flush_ms=0.2)), cluster, load)
    # Two commits of ten pages each: a checkpoint in fifty turns, which is the slowest of a hundred and not the median.
    assert outcome.p50_ms == pytest.approx(quick.p50_ms, rel=0.02)
    assert outcome.p99_ms > quick.p99_ms + 15
    took_ms, quick_ms = (1_000 / each.rate for each in (outcome, quick))
    assert took_ms - quick_ms == pytest.approx(23 / 50, rel=0.2)


def test_the_means_of_equal_parts_have_the_mean_of_all_and_the_last_is_that_of_the_slowest() -> None:
    values = [1.0] * 198 + [3.0, 5.0]
    found = spread(values, 2.0)
    assert len(found) == 100
    assert (found[0], found[-1]) == (0.5, 2.0)
    assert sum(found) / 100 == pytest.approx(sum(values) / 200 / 2)
    assert spread([4.0, 2.0]) == [2.0, 4.0]


def test_the_way_to_a_process_that_sleeps_is_told_for_each_message() -> None:
    found_ms = ways_ms(rounds=20)
    assert len(found_ms) == 20
    assert all(0 < each < 5_000 for each in found_ms)


def test_a_process_that_sleeps_is_woken_within_a_slice_and_on_a_busy_machine_may_be_awake() -> None:
    assert 0 <= wake_ms(rounds=20) < 50


def test_the_wait_for_a_core_is_told_for_each_round() -> None:
    waits_ms = takeovers_ms(rounds=5)
    assert len(waits_ms) == 5
    assert all(0 <= each < 5_000 for each in waits_ms)
