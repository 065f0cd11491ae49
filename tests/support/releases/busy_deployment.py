"""A deployment under load: a program has turns of all kinds run while it is updated, upgraded and drained from outside."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.programs.other_release import Release, plain_ray
from tests.support.releases.busy_app import NAME, code, faults

RATE = float(os.environ.get("SOAK_RATE", "50"))
"""Turns a second."""

SHOWN = 20
"""Faults that are shown."""

BETWEEN_S = 2.0


@contextmanager
def recovering() -> Iterator[None]:
    """Waits after the block for as long as it has lasted: what has waited while the deployment was away is worked off then."""
    began_s = time.monotonic()
    yield
    time.sleep(max(BETWEEN_S, time.monotonic() - began_s))


@dataclass
class Busy:
    """A deployment under load.

    Attributes:
        releases: two copies of this raygrove, or an older one and this one. The first starts the deployment and the program.
        path: of the app's code.
        address: of its Ray.
        told: what the program tells, in the end.
        lasted_s: how long there was load.
    """

    releases: list[Release]
    path: str
    address: str
    told: dict[str, Any] = field(default_factory=dict)
    lasted_s: float = 0.0

    def json(self, *command: str, release: int = 0) -> Any:
        """What a command tells as a line of JSON."""
        return json.loads(self.releases[release].run(*command, "--json").splitlines()[0])

    def versions(self) -> list[dict[str, Any]]:
        """The versions that it keeps."""
        return [json.loads(line) for line in self.releases[0].run("history", NAME, "--json").splitlines()]

    def check(self, trees: Mapping[str, int], tell: Callable[[str], None]) -> None:
        """Every turn has ended, once, with what the tree says by which it began."""
        found = list(faults(self.told, dict(trees)))
        turns, due = len(self.told["asked"]), sum(map(len, self.told["due"].values()))
        by = Counter(str(trees.get(turn[1])) for turn in self.told["turns"].values())
        per_s = turns / self.lasted_s
        tell(
            f"{turns:,} turns in {self.lasted_s:.0f} s ({per_s:.0f} a second) and {due} of schedules, by {len(by)} trees; "
            f"{len(found)} lost, failed, doubled or by another tree"
        )
        tell(f"refused: {self.told['refusals']}")
        for fault in found[:SHOWN]:
            tell(f"  {fault}")
        assert not found
        assert turns > 100


@contextmanager
def busy_deployment(folder: Path, rate: float = RATE) -> Iterator[Busy]:
    """A deployment under load while the block lasts."""
    with plain_ray() as of_ray:
        of_ray |= {"RAYGROVE_DATA_DIR": str(folder / "data"), "RAYGROVE_MAX_LIVE_AGENTS": "6"}
        of_ray["RAYGROVE_MIN_SCHEDULE_INTERVAL_S"] = "1"
        releases = [Release.of_this(folder / each, each, of_ray) for each in ("one", "other")]
        busy = Busy(releases, code(folder, 0), of_ray["RAY_ADDRESS"])
        releases[0].run("start", busy.path)
        releases[0].add("tests/support/releases/turns_program.py")
        program = releases[0].started("tests.support.releases.turns_program", NAME, str(rate))
        began_s = time.monotonic()
        try:
            time.sleep(BETWEEN_S)
            yield busy
            busy.lasted_s = time.monotonic() - began_s
            output, _ = program.communicate(timeout=300)
            assert program.returncode == 0
            busy.told = json.loads(output.splitlines()[-1])
        finally:
            program.kill()
            program.communicate()
            releases[-1].run("stop", NAME)
