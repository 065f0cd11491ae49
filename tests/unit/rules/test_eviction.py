"""What a cache keeps, and what it lets go of first."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rules.eviction import OVERHEAD, CacheEviction, LruDict
from tests.support.tries import tries

MOST = 10 * OVERHEAD
IDLE_S = 100.0


def let_go(keeping: CacheEviction[int], now_s: float, in_use: frozenset[int] = frozenset()) -> list[int]:
    """Do as it says. Returns what has gone, in this order."""
    gone = []
    for key in keeping.surplus(now_s):
        if key in in_use:
            keeping.use(key, 0, now_s)
        else:
            keeping.drop_key(key)
            gone.append(key)
    return gone


def test_what_is_idle_goes_however_light_it_is() -> None:
    keeping: CacheEviction[int] = CacheEviction(MOST, IDLE_S)
    keeping.use(1, 0, 0.0)
    keeping.use(2, 0, 50.0)
    assert let_go(keeping, 99.0) == []
    assert let_go(keeping, 100.0) == [1]
    assert let_go(keeping, 200.0, frozenset({2})) == []
    assert let_go(keeping, 299.0) == []
    assert let_go(keeping, 300.0) == [2]
    assert keeping.weight == 0


def test_when_all_is_in_use_it_is_not_looked_through_at_every_use() -> None:
    keeping: CacheEviction[int] = CacheEviction(MOST, IDLE_S)
    looked_at = 0
    for use in range(1_000):
        keeping.use(use % 100, 0, 1.0)
        for key in keeping.surplus(1.0):
            looked_at += 1
            keeping.use(key, 0, 1.0)
    assert looked_at < 5_000
    # And when it is not any more, what is too much goes soon.
    gone = []
    for use in range(100):
        keeping.use(use, 0, 2.0)
        gone += let_go(keeping, 2.0)
    assert keeping.weight <= MOST
    assert len(gone) >= 90


steps = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3 * OVERHEAD), st.floats(0.0, 60.0)), max_size=60)


@settings(max_examples=tries(300))
@given(steps)
def test_it_is_never_too_heavy_nor_idle_and_lets_go_of_nothing_needlessly(uses: list[tuple[int, int, float]]) -> None:
    keeping: CacheEviction[int] = CacheEviction(MOST, IDLE_S)
    weights: dict[int, int] = {}
    used_s: dict[int, float] = {}
    now_s = 0.0
    for key, weight, passes_s in uses:
        now_s += passes_s
        keeping.use(key, weight, now_s)
        weights[key], used_s[key] = weight + OVERHEAD, now_s
        for gone in let_go(keeping, now_s):
            # The oldest, and either it was too much or it was idle.
            assert used_s[gone] == min(used_s.values())
            assert sum(weights.values()) > MOST or now_s - used_s[gone] >= IDLE_S
            del weights[gone], used_s[gone]
        assert keeping.weight == sum(weights.values()) <= MOST
        assert len(keeping) == len(weights)
        assert all(now_s - since < IDLE_S for since in used_s.values())


uses = st.lists(st.tuples(st.sampled_from(["set", "get", "pop"]), st.integers(0, 6)), max_size=40)


@given(uses, st.integers(1, 5))
def test_it_keeps_the_entries_that_were_used_last_and_no_more_than_it_may(uses: list[tuple[str, int]], room: int) -> None:
    lru: LruDict[int, str] = LruDict(room)
    # The same in a list, the least recently used first.
    model: list[int] = []
    for use, key in uses:
        is_there = key in model
        assert (key in lru) is is_there
        if use == "set":
            lru[key] = f"{key}"
            model = [*(each for each in model if each != key), key][-room:]
        elif use == "get":
            assert lru.get(key) == (f"{key}" if is_there else None)
            model = [*(each for each in model if each != key), *([key] if is_there else [])]
        else:
            assert lru.pop(key) == (f"{key}" if is_there else None)
            model = [each for each in model if each != key]
        assert len(lru) == len(model) <= room
    assert [key for key in range(7) if key in lru] == sorted(model)
