"""Play seeds: `python -m tests.simulation [WORLD] SEED` tells one, and makes it small; `… FIRST LAST` plays many."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from typing import Any

from tests.simulation.frame import World
from tests.simulation.shrink import shrunk
from tests.simulation.telling import as_test, told_logs, told_trace
from tests.simulation.worlds import WORLDS, numbered

MAIN = "deployments"
"""The world where none is named."""


def tell(name: str, seed: int, *, shrinks: bool, traces: bool) -> int:
    """Tell what happens with a seed; if it fails, make it smaller first. Returns the number of problems."""
    world = WORLDS[name]
    given = world.scenario(seed)
    left = world.play(given, seed)
    if left.problems and shrinks:
        given = smallest(world, given, seed, kind_of(left.problems))
        left = world.play(given, seed)
    lines = [*(told_trace(left.trace) if traces else ()), "", *told_logs(left.history), "", *as_test(name, given, seed), ""]
    print("\n".join([*lines, *(left.problems or ["all holds"]), f"trace {left.trace.digest():08x}"]))
    return len(left.problems)


def smallest(world: World, given: Any, seed: int, kind: str = "") -> Any:
    """The smallest scenario that still fails with a problem of a kind; "": of any."""
    return shrunk(given, lambda smaller: fails(world, smaller, seed, kind))


def fails(world: World, given: Any, seed: int, kind: str = "") -> bool:
    """True when a scenario fails with a problem of a kind; "": of any, but not without its faults."""
    try:
        problems = world.play(given, seed).problems
    except Exception:
        # It is none: an agent hands over to another that is left out, say.
        return False
    if not kind:
        return bool(problems) and not problems[0].startswith("without faults")
    return bool(problems) and kind_of(problems) == kind


def kind_of(problems: Sequence[str]) -> str:
    """The first problem without what stands in it by chance."""
    return re.sub(r"\{.*\}|\[.*\]|'[^']*'|\b\w*\d[\w.-]*", "", problems[0])


def run(name: str, first: int, last: int, processes: int, say: Callable[[str], None] = print) -> list[int]:
    """Play the seeds of a world from `first` up to `last`. Returns those that fail."""
    began_s = time.monotonic()
    failed = []
    with get_context("spawn").Pool(processes) as pool:
        for seed, problems in pool.imap(partial(numbered, name), range(first, last), chunksize=20):
            if problems:
                failed.append(seed)
                say(f"seed {seed}: {problems[0]}")
    say(f"{last - first} seeds, {len(failed)} failed, {time.monotonic() - began_s:.0f} s in {processes} processes")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", help=f"a world, by default {MAIN}, a seed, and the one up to which all are played")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--whole", action="store_true", help="do not make a scenario that fails smaller")
    parser.add_argument("--no-trace", action="store_true")
    given = parser.parse_args()
    name, *seeds = given.what if given.what[0] in WORLDS else (MAIN, *given.what)
    first, *last = map(int, seeds)
    if not last:
        raise SystemExit(bool(tell(name, first, shrinks=not given.whole, traces=not given.no_trace)))
    raise SystemExit(bool(run(name, first, last[0], given.processes)))


if __name__ == "__main__":
    main()
