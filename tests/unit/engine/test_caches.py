"""What processes keep: how caches of a node share its memory, and which definitions of flows stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import FlowNotFoundError
from actors.rules.eviction import CacheEviction
from runtime.engine.deployment import MAX_ADDED, FlowRegistry
from runtime.engine.process.node_caches import NodeCaches, cache_share

ROOM = 1_000

weights = st.lists(st.integers(0, 2 * ROOM), min_size=1, max_size=12)


def shares(taken: list[int]) -> list[int]:
    """What each may take."""
    return [cache_share(ROOM, taken[:number] + taken[number + 1 :]) for number in range(len(taken))]


def test_a_cache_gets_what_the_others_leave_and_at_least_an_even_share() -> None:
    assert cache_share(ROOM, []) == ROOM
    assert cache_share(ROOM, [0, 0, 0]) == ROOM
    assert cache_share(ROOM, [100, 200]) == 700
    # The large one has to give way: it has more than an even share.
    assert cache_share(ROOM, [900, 100]) == 450
    assert cache_share(ROOM, [900, 900, 900]) == 250


@given(weights)
def test_none_has_to_take_less_than_an_even_share(taken: list[int]) -> None:
    assert min(shares(taken)) >= ROOM // len(taken)


@given(weights)
def test_where_none_takes_more_than_it_may_all_take_no_more_than_there_is(taken: list[int]) -> None:
    if all(weight <= share for weight, share in zip(taken, shares(taken), strict=True)):
        assert sum(taken) <= ROOM
    else:
        assert max(taken) > ROOM // len(taken)


@given(weights, st.data())
def test_caches_that_look_one_after_the_other_end_within_their_shares(wanted: list[int], data: st.DataObject) -> None:
    taken = [0] * len(wanted)
    for number in data.draw(st.lists(st.integers(0, len(wanted) - 1), max_size=30)) + [*range(len(wanted))] * 2:
        # Each grows to what it wants, as far as it may.
        taken[number] = min(wanted[number], shares(taken)[number])
    assert sum(taken) <= ROOM


MAX_BYTES = 1_000_000

PROGRAM = """
import sys
from pathlib import Path
from actors.rules.eviction import CacheEviction
from runtime.engine.process.node_caches import NodeCaches
cache = CacheEviction(0, 60.0)
cache.use("key", 300_000, 0.0)
caches = NodeCaches(Path(sys.argv[1]), b"secret", 1_000_000, cache)
print(cache.weight, flush=True)
sys.stdin.read()
"""


def cache_of(weight: int) -> CacheEviction[str]:
    made: CacheEviction[str] = CacheEviction(MAX_BYTES, 60.0)
    made.use("key", weight, 0.0)
    return made


def test_a_cache_may_take_what_those_of_its_deployment_leave(tmp_path: Path) -> None:
    own, other = cache_of(100_000), cache_of(200_000)
    caches = NodeCaches(tmp_path, b"secret", MAX_BYTES, own)
    assert own.max_bytes == MAX_BYTES
    others, foreign = (
        NodeCaches(tmp_path, b"secret", MAX_BYTES, other),
        NodeCaches(tmp_path, b"else", MAX_BYTES, cache_of(700_000)),
    )
    assert other.max_bytes == MAX_BYTES - own.weight
    caches.look()
    assert own.max_bytes == MAX_BYTES - other.weight
    other.use("more", 700_000, 1.0)
    for each in (others, caches):
        each.look()
    # An even share is its, and the other one has to become smaller as it grows.
    assert own.max_bytes == MAX_BYTES // 2
    assert other.max_bytes == MAX_BYTES - own.weight < other.weight
    for each in (others, foreign):
        each.close()
    caches.look()
    assert own.max_bytes == MAX_BYTES
    caches.close()


def test_a_process_that_is_killed_leaves_its_share_to_others_and_no_file(tmp_path: Path) -> None:
    own = cache_of(0)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        taken = int(other.stdout.readline())
        caches = NodeCaches(tmp_path, b"secret", MAX_BYTES, own)
        assert own.max_bytes == MAX_BYTES - taken
        assert len(list(tmp_path.iterdir())) == 2
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    caches.look()
    assert own.max_bytes == MAX_BYTES
    assert len(list(tmp_path.iterdir())) == 1
    caches.close()


def test_where_no_file_can_be_made_a_cache_takes_what_it_was_made_with(tmp_path: Path) -> None:
    own = cache_of(0)
    NodeCaches(tmp_path / "missing", b"secret", MAX_BYTES // 2, own).look()
    assert own.max_bytes == MAX_BYTES // 2


async def test_the_least_recently_used_definition_is_dropped_and_those_of_the_tree_never() -> None:
    flows = FlowRegistry({"of the tree": "plan"})
    for number in range(MAX_ADDED):
        flows.add(f"f{number}", f"plan {number}")
    assert await flows.find("f0") == "plan 0"
    flows.add("one more", "plan")
    assert flows.get("f1") is None
    assert [flows.get(name) for name in ("f0", "f2", "one more", "of the tree")] == ["plan 0", "plan 2", "plan", "plan"]
    with pytest.raises(FlowNotFoundError):
        await flows.find("f1")
