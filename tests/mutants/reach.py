"""Which tests reach which lines: a plugin of pytest that finds out, once for many mutants.

`pytest -n 2 -p tests.mutants.reach tests/unit` leaves files `.reach.*` in the checkout. They know what tests do in their own
process, and not what other processes do for them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import coverage
import pytest

from tests.mutants.mutant import ROOT, Mutant

NAME = ".reach"

_COVERAGE = pytest.StashKey[coverage.Coverage]()


def pytest_configure(config: pytest.Config) -> None:
    measured = coverage.Coverage(data_file=str(ROOT / NAME), data_suffix=True, config_file=False, messages=False)
    measured.set_option("run:source_pkgs", ["actors", "raygrove", "runtime"])
    # They are imported already, and pytest takes warnings for errors.
    measured.set_option("run:disable_warnings", ["already-imported", "module-not-measured", "no-data-collected"])
    measured.start()
    config.stash[_COVERAGE] = measured


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note lines for another test."""
    item.config.stash[_COVERAGE].switch_context(item.nodeid)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_COVERAGE].stop()
    config.stash[_COVERAGE].save()


class Reach:
    """What the files know."""

    def __init__(self) -> None:
        self._tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._lines: Counter[str] = Counter()
        for path in ROOT.glob(f"{NAME}.*"):
            data = coverage.CoverageData(str(path))
            data.read()
            for file in data.measured_files():
                for line, tests in data.contexts_by_lineno(file).items():
                    self._tests[file.removeprefix(f"{ROOT}/"), line].update(tests)
                    self._lines.update(tests)

    def tests(self, mutant: Mutant) -> Sequence[str]:
        """The tests that reach what a mutant changes, those first that reach little else."""
        found: set[str] = set()
        for file, lines in mutant.lines():
            line = lines.start
            while line and (file, line) not in self._tests:
                # The text may begin between two lines that count.
                line -= 1
            reached = set[str]().union(*(self._tests.get((file, each), ()) for each in (line, *lines)))
            if reached == {""}:
                # What is done when a module is imported may show in all that it does.
                reached = set[str]().union(*(tests for (other, _), tests in self._tests.items() if other == file))
            found |= reached
        return sorted(found - {""}, key=lambda test: (self._lines[test], test))
