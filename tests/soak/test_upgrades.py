"""Ten upgrades, and ten drains, while a program that has joined has turns of all kinds run.

The first test does one of each. `SOAK_TIMES=5` does five instead; `SOAK_RATE=20` has 20 turns begin each second instead of 50.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.machine.terminal import Tell
from tests.support.releases.busy_deployment import BETWEEN_S, NAME, busy_deployment, code, recovering

TIMES, WITHIN = int(os.environ.get("SOAK_TIMES", "10")), "1s"

FEW = 8
"""Turns a second of the test that does everything once."""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_drain_an_update_and_an_upgrade_lose_no_turn(tmp_path: Path) -> None:
    with busy_deployment(tmp_path, FEW) as busy:
        (first,) = busy.versions()
        # First, since trees of updates end with a deployment that stops.
        assert busy.releases[0].code("stop", NAME, "--drain", "--within", WITHIN) in (0, 3)
        busy.releases[0].run("start", busy.path, "--resume")
        code(tmp_path, 1)
        trees = {str(first["id"]): 0, str(busy.json("update", NAME, busy.path)["version"]): 1}
        code(tmp_path, 2)
        report = busy.json("upgrade", NAME, busy.path, "--within", WITHIN, release=1)
        assert report["releaseBefore"] != report["releaseAfter"]
        trees |= {str(report["versionAfter"]): 2}
        time.sleep(BETWEEN_S)
    busy.check(trees, print)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_ten_upgrades_lose_no_turn(tmp_path: Path, tell: Tell) -> None:
    trees, away_s, left = dict[str, int](), list[float](), 0
    with busy_deployment(tmp_path) as busy:
        for number in range(1, TIMES + 1):
            code(tmp_path, number)
            with recovering():
                report = busy.json("upgrade", NAME, busy.path, "--within", WITHIN, release=number % 2)
            trees |= {report["versionBefore"]: number - 1, report["versionAfter"]: number}
            away_s.append(report["awayS"])
            left += report.get("left", 0)
            assert report["releaseBefore"] != report["releaseAfter"]

    tell(f"{TIMES} upgrades: {left} turns went on in the next one; away for {min(away_s):.1f} to {max(away_s):.1f} s")
    busy.check(trees, tell)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_ten_drains_lose_no_turn(tmp_path: Path, tell: Tell) -> None:
    codes = Counter[int]()
    with busy_deployment(tmp_path) as busy:
        (version,) = busy.versions()
        for _ in range(TIMES):
            with recovering():
                codes[busy.releases[0].code("stop", NAME, "--drain", "--within", WITHIN)] += 1
                busy.releases[0].run("start", busy.path, "--resume")

    tell(f"{TIMES} drains: exit codes {dict(codes)}")
    busy.check({version["id"]: 0}, tell)
    assert codes.keys() <= {0, 3}
