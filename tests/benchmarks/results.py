"""What a run of the benchmarks leaves behind: its figures, and what they were made on."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from tests.benchmarks.figures import Figure

FOLDER = Path(__file__).parent
_PACKAGES = ("ray", "msgspec", "pydantic", "google-genai", "sqlalchemy")


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as `results.json` has it.

    Attributes:
        began: date and time.
        command: that repeats it.
        machine: what it ran on.
        cpus: of the machine.
        load: the machine's load average over one, five and fifteen minutes when the run began.
        versions: of Python and of what the figures depend on, and of the peers.
        took_s: seconds, by benchmark, and by peer.
        pace_ms: of the machine, just before each of them, see pace.py.
        figures: what was measured.
    """

    began: str
    command: str
    machine: str
    cpus: int
    load: Sequence[float]
    versions: Mapping[str, str]
    took_s: Mapping[str, float]
    figures: Sequence[Figure]
    pace_ms: Mapping[str, float] = {}

    @property
    def was_busy(self) -> bool:
        """True when the machine had other things to do, so that figures tell of those as well."""
        return self.load[0] > self.cpus / 2


def begun(command: str) -> Results:
    """A run that has measured nothing yet."""
    versions = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
    return Results(
        began=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        machine=f"{os.cpu_count()} CPUs ({_processor()}), {_memory_gib():.0f} GiB, {platform.system()}",
        cpus=os.cpu_count() or 1,
        load=[round(each, 2) for each in os.getloadavg()],
        versions=versions | {package: version(package) for package in _PACKAGES},
        took_s={},
        figures=[],
    )


def read(folder: Path = FOLDER) -> Results:
    """The results in a folder."""
    return msgspec.json.decode((folder / "results.json").read_bytes(), type=Results)


def write(results: Results, folder: Path) -> None:
    """Put results into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
