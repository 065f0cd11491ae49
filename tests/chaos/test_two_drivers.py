"""Two drivers share the sessions of one deployment, while all processes are killed and stopped, the drivers too."""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path

import msgspec
import pytest

from tests.chaos.storm_checks import EndedTurn, Findings, check, reference
from tests.chaos.storm_driver import APP
from tests.chaos.storm_faults import DriverProcess, Faults
from tests.chaos.storm_tree import KINDS, Journal, storm_tree
from tests.support.machine.terminal import Tell
from tests.support.runtimes import Deploy

NAMES = ("first", "second")


def storm(
    address: str, folder: Path, *, sessions: int, turns: int, seed: int, faults: float = math.inf
) -> tuple[Findings, list[str]]:
    """Send turns from two drivers to the same sessions, and let so many faults happen at most.

    Returns:
        What was found, and the figures as lines.
    """
    (folder / "reference").mkdir()
    chosen = random.Random(seed)
    for name in NAMES:
        work = [
            (f"s{chosen.randrange(sessions)}", f"{name}-{number}", f"{chosen.choice(KINDS)} {number}")
            for number in range(1, turns // len(NAMES) + 1)
        ]
        (folder / f"{name}.work.json").write_text(json.dumps(work))
    journal = folder / "journal"
    with Deploy("ray", folder)(storm_tree(journal), app_name=APP, address=address, detached=True) as rt:
        try:
            began_s = time.monotonic()
            drivers = [DriverProcess(address, folder, name) for name in NAMES]
            try:
                with Faults(rt, drivers, seed, faults) as wind:
                    while not all(driver.wait(1.0) for driver in drivers):
                        assert time.monotonic() - began_s < 10 * turns, "turns hang"
            finally:
                for driver in drivers:
                    driver.end()
            took_s = time.monotonic() - began_s
            ended = [
                msgspec.json.decode(line, type=EndedTurn)
                for name in NAMES
                for line in (folder / f"{name}.ended.jsonl").read_text().splitlines()
            ]
            found = check(rt, reference(folder / "reference"), ended, wind.happened, Journal(journal))
        finally:
            rt.shutdown()
    happened = ", ".join(f"{number} x {what}" for what, number in sorted(wind.counts().items()))
    runs = ", ".join(f"{number} calls ran {times} times" for times, number in sorted(found.runs_of_calls.items()))
    return found, [
        f"{found.turns} turns, {found.events} events in {took_s:.0f} s, the slowest turn took {found.slowest_s:.1f} s",
        f"{len(wind.happened)} faults: {happened}",
        f"tools: {runs}; {found.refused} starts of turns were refused and made again",
        f"{len(found.failed)} turns failed",
        *found.failed,
        f"{len(found.wrong)} wrong",
        *found.wrong,
    ]


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_short_storm(local_ray: str, tmp_path: Path) -> None:
    found, lines = storm(local_ray, tmp_path, sessions=4, turns=24, seed=1, faults=8)
    assert found.wrong == [], lines
    assert found.turns == 24


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_turns_are_what_they_would_be_without_faults(local_ray: str, tmp_path: Path, tell: Tell) -> None:
    found, lines = storm(local_ray, tmp_path, sessions=15, turns=1000, seed=11)
    for line in lines:
        tell(line)
    assert found.wrong == []
    assert found.turns == 1000
