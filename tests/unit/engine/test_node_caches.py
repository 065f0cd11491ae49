"""Caches of several processes on one node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from actors.rules.eviction import CacheEviction
from runtime.engine.process.node_caches import NodeCaches

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
