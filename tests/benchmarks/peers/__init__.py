"""The same turn by other projects, each in an environment of its own, so that ours needs none of theirs.

A peer is a script in this folder. It prints one JSON object: milliseconds of a turn by turns of history, by store.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.benchmarks.figures import Figure
from tests.benchmarks.plan import Plan

NAME = "peers"
FOLDER = Path(".venv-peers")
REQUIREMENTS = ("google-adk[db]==2.13.*", "aiosqlite")
HISTORIES = (50, 500)
"""Turns of history: 100 and 1,000 events."""


def is_there() -> bool:
    """True when the peers' environment has been made."""
    return _python().exists()


def make() -> None:
    """Make the peers' environment and install them."""
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    subprocess.run([str(_python()), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)


def measure(plan: Plan, ours: Sequence[Figure]) -> list[Figure]:
    """Every peer's turn, with what ours took at the same number of events, if that was measured."""
    script = Path(__file__).parent / "adk.py"
    command = [str(_python()), str(script), str(plan.peer_turns), *map(str, HISTORIES)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    taken = msgspec.json.decode(printed.splitlines()[-1], type=dict[str, dict[int, float]])
    return [_figure(store, turns, value, ours) for store, by_turns in taken.items() for turns, value in by_turns.items()]


def _figure(store: str, turns: int, value: float, ours: Sequence[Figure]) -> Figure:
    same: Mapping[str, float] = {figure.name: figure.value for figure in ours}
    reference = same.get(f"at {2 * turns:,} events: median")
    name = f"google-adk, {store}, after {turns} turns: median"
    return Figure(benchmark=NAME, name=name, value=value, unit="ms", reference=reference, reference_name="ours")


def _python() -> Path:
    return FOLDER / "bin" / "python"
