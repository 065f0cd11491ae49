"""A hundred updates by the command, of a deployment whose turns of all kinds other programs have run, over HTTP as well.

`SOAK_TIMES=10` does ten instead; `SOAK_RATE=20` has 20 turns begin each second instead of 50.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.machine.terminal import Tell
from tests.support.releases.busy_app import NAME, code
from tests.support.releases.busy_deployment import Busy, busy_deployment, processes

TIMES = int(os.environ.get("SOAK_TIMES", "100"))
SHARED_EVERY, ROLLED_BACK_EVERY, PAUSE_S, MOST_KEPT = 4, 5, 0.3, 8

MOST_MB, MOST_FILES = 4, 0.5
"""How much all processes together may grow with each update, at most."""


def change(busy: Busy, folder: Path, number: int) -> tuple[str, int]:
    """Update once; with a share now and then, or back to the tree before. Returns the version that is given, and its tree."""
    if number % ROLLED_BACK_EVERY == 0:
        return str(busy.json("rollback", NAME)["version"]), -1
    code(folder, number)
    share = ["--share", "0.3"] if number % SHARED_EVERY == 0 else []
    return str(busy.json("update", NAME, busy.path, *share)["version"]), number


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_hundred_updates_from_outside_lose_no_turn(tmp_path: Path, tell: Tell) -> None:
    kinds, chance, took_s = Counter[str](), random.Random(3), list[float]()

    with busy_deployment(tmp_path) as busy:
        (first,) = busy.versions()
        trees = {str(first["id"]): 0}
        for number in range(1, TIMES + 1):
            began_s = time.monotonic()
            version, tree = change(busy, tmp_path, number)
            took_s.append(time.monotonic() - began_s)
            kinds["rollbacks" if tree < 0 else "updates"] += 1
            assert version not in trees if tree >= 0 else version in trees
            trees.setdefault(version, tree)
            time.sleep(chance.uniform(0, 2 * PAUSE_S))
            if number in (TIMES // 3, TIMES):
                tell(f"after {number}: {processes(busy.address)}")
        assert len(busy.versions()) <= MOST_KEPT
    tell(f"{dict(kinds)}; a command took {sorted(took_s)[TIMES // 2]:.1f} s, at most {max(took_s):.1f} s")
    busy.check(trees, tell)
