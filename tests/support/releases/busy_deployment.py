"""A deployment under load: programs have turns of all kinds run while it is updated, upgraded and drained from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.machine.process_use import MB, use_of
from tests.support.programs.other_release import Release, plain_ray
from tests.support.releases.busy_app import NAME, code, faults

RATE = float(os.environ.get("SOAK_RATE", "50"))
"""Turns a second of both programs together."""

SHOWN = 20
"""Faults that are shown."""

BETWEEN_S = 2.0


@contextmanager
def recovering() -> Iterator[None]:
    """Waits after the block for as long as it has lasted: what has waited while the deployment was away is worked off then."""
    began_s = time.monotonic()
    yield
    time.sleep(max(BETWEEN_S, time.monotonic() - began_s))


class Load:
    """Programs that have turns run."""

    def __init__(self, release: Release, server: str, rate: float) -> None:
        self.programs = [self._started(release, NAME, str(rate / 2)), self._started(release, NAME, str(rate / 2), server)]

    def _started(self, release: Release, *arguments: str) -> subprocess.Popen[str]:
        release.add("tests/support/releases/turns_program.py")
        command = [sys.executable, "-m", "tests.support.releases.turns_program", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=release.environment, cwd=release.folder)

    def told(self) -> dict[str, Any]:
        """End them. What they tell together; that over HTTP ends first, since the other one lists the turns of both."""
        ends = []
        for program in reversed(self.programs):
            output, _ = program.communicate(timeout=300)
            assert program.returncode == 0
            ends.append(json.loads(output.splitlines()[-1]))
        http, joined = ends
        refusals = Counter(http["refusals"]) + Counter(joined["refusals"])
        joined["longest"] = max(http["longest"], joined["longest"])
        return {**joined, "asked": {**http["asked"], **joined["asked"]}, "refusals": dict(refusals), "cuts": http["cuts"]}

    def kill(self) -> None:
        """End them, whatever they do."""
        for program in self.programs:
            program.kill()
            program.communicate()


@dataclass
class Busy:
    """A deployment under load.

    Attributes:
        releases: two copies of this raygrove, or an older one and this one. The first starts the deployment, the programs and
            the server.
        path: of the app's code.
        address: of its Ray.
        told: what the programs tell, in the end.
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
        tell(f"refused: {self.told['refusals']}; cut: {self.told['cuts']}")
        took_s, turn, ended_s = self.told["longest"]
        steps = ", ".join(f"{author} {at - ended_s + took_s:.1f} s" for at, author in self.told["steps"][turn])
        tell(f"longest: {turn} ({self.told['asked'][turn][0]}) took {took_s:.1f} s, since it was asked for: {steps}")
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
        with releases[0].serving(NAME) as server:
            load = Load(releases[0], server, rate)
            began_s = time.monotonic()
            try:
                time.sleep(BETWEEN_S)
                yield busy
                busy.lasted_s = time.monotonic() - began_s
                busy.told = load.told()
            finally:
                load.kill()
                releases[-1].run("stop", NAME)


def processes(address: str) -> dict[str, tuple[int, float, int]]:
    """The processes of a Ray: by name how many, and their memory in MB and open files.

    Args:
        address: of its control service.
    """
    lines, parents = dict[int, str](), dict[int, int]()
    for each in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if each.name.isdigit():
                lines[int(each.name)] = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    port = f"--gcs_server_port={address.rpartition(':')[2]} "
    (top,) = {parents[pid] for pid, line in lines.items() if port in line and "gcs_server" in line.split()[0]}
    found = dict[str, tuple[int, float, int]]()
    for pid, line in lines.items():
        with suppress(FileNotFoundError, ProcessLookupError):
            if line and top in _ancestors(pid, parents):
                count, memory, files = found.get(name := line.split()[0].rpartition("/")[2], (0, 0.0, 0))
                use = use_of(pid)
                found[name] = (count + 1, round(memory + use.memory / MB, 1), files + use.files)
    return found


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid
