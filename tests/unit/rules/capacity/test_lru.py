"""A dictionary that forgets what was used least recently."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.rules.capacity.eviction import LruDict

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
