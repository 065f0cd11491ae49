"""Play simulations: `python -m tests.simulation SEED` tells one, `python -m tests.simulation FIRST LAST` many."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context

from tests.simulation.shrink import shrunk
from tests.simulation.simulate import Case, case, check, run_numbered
from tests.simulation.telling import as_test, told_case, told_log, told_trace


def tell(seed: int, *, shrinks: bool, traces: bool) -> int:
    """Tell what happens with a seed; if it fails, make it smaller first. Returns the number of problems."""
    given = case(seed)
    problems, result, trace = check(given)
    if problems and shrinks:
        given = smallest(given, kind_of(problems))
        problems, result, trace = check(given)
    lines = [*told_case(given), "", *(told_trace(trace) if traces else ()), "", "the log:", *told_log(result), ""]
    lines += as_test(given) if problems else []
    print("\n".join([*lines, *(problems or ["all holds"]), f"trace {trace.digest():08x}"]))
    return len(problems)


def smallest(given: Case, kind: str = "") -> Case:
    """The smallest case that still fails, only with faults if the given one does, and with a problem of a kind; "": of any."""
    return shrunk(given, lambda smaller: fails(smaller, kind))


def fails(given: Case, kind: str = "") -> bool:
    """True when a case fails with a problem of a kind; "": of any, but not without its faults."""
    problems, _, _ = check(given)
    if not kind:
        return bool(problems) and not problems[0].startswith("without faults")
    return bool(problems) and kind_of(problems) == kind


def kind_of(problems: Sequence[str]) -> str:
    """The first problem without what stands in it by chance."""
    return re.sub(r"\{.*\}|\[.*\]|'[^']*'|\b\w*\d[\w.-]*", "", problems[0])


def run(first: int, last: int, processes: int, say: Callable[[str], None] = print) -> list[int]:
    """Play the seeds from `first` up to `last`. Returns those that fail."""
    began_s = time.monotonic()
    failed = []
    with get_context("spawn").Pool(processes) as pool:
        for seed, problems in pool.imap(run_numbered, range(first, last), chunksize=20):
            if problems:
                failed.append(seed)
                say(f"seed {seed}: {problems[0]}")
    say(f"{last - first} seeds, {len(failed)} failed, {time.monotonic() - began_s:.0f} s in {processes} processes")
    return failed


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("last", type=int, nargs="?", help="play all seeds up to this one")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--whole", action="store_true", help="do not make a case that fails smaller")
    parser.add_argument("--no-trace", action="store_true")
    given = parser.parse_args()
    if given.last is None:
        raise SystemExit(bool(tell(given.seed, shrinks=not given.whole, traces=not given.no_trace)))
    raise SystemExit(bool(run(given.seed, given.last, given.processes)))


if __name__ == "__main__":
    main()
