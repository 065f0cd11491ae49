"""How many replicas an agent has by the runs that it has under way, and which of them serves a session."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.layers.trees.process_groups import replica_among
from actors.messages.session import SessionKey
from runtime.cluster.rules.process_choice import Scale, ScaleLimits, scaled, serving

IDLE_S = 60.0
Bounds = st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 50)).map(
    lambda given: ScaleLimits(given[0], given[0] + given[1], given[2], IDLE_S)
)
Loads = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 1_000)), min_size=1)


@given(Bounds, Loads)
def test_there_are_as_many_as_runs_need_within_the_bounds_and_fewer_only_after_a_while(
    limits: ScaleLimits, loads: list[tuple[float, int]]
) -> None:
    scale, now_s = Scale(limits.least, 0.0), 0.0
    needed_in_time: list[tuple[float, int]] = [(0.0, limits.least)]
    for pause_s, runs in loads:
        now_s += pause_s
        before, scale = scale, scaled(scale, limits, runs=runs, now_s=now_s)
        assert limits.least <= scale.replicas <= limits.most
        assert scale.replicas == limits.most or scale.replicas * limits.runs_per_replica >= runs
        needed = min(max(-(-runs // limits.runs_per_replica), limits.least), limits.most)
        assert scale.replicas in (before.replicas, needed)
        needed_in_time.append((now_s, needed))
        if scale.replicas < before.replicas:
            assert all(each < before.replicas for at_s, each in needed_in_time if now_s - at_s < IDLE_S)


def test_a_load_that_ends_leaves_as_few_as_there_always_are() -> None:
    limits = ScaleLimits(1, 16, 100, IDLE_S)
    scale = scaled(Scale(1, 0.0), limits, runs=950, now_s=5.0)
    assert scale.replicas == 10
    scale = scaled(scale, limits, runs=0, now_s=5.0 + IDLE_S - 1)
    assert scale.replicas == 10
    assert scaled(scale, limits, runs=0, now_s=5.0 + IDLE_S).replicas == 1


def test_those_serve_that_always_do_and_of_the_others_those_that_live() -> None:
    assert serving(Scale(5, 0.0), ScaleLimits(2, 8, 10, IDLE_S), [1, 4, 6]) == (0, 1, 4)


@given(st.sets(st.integers(0, 15), min_size=2), st.data())
def test_with_one_replica_fewer_only_its_sessions_move(numbers: set[int], data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(sorted(numbers)))
    for session in range(50):
        key = SessionKey("app", "ada", f"s{session}")
        before = replica_among(key, sorted(numbers))
        after = replica_among(key, sorted(numbers - {lost}))
        assert after == before or before == lost
