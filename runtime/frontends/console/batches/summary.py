"""What a batch has come to, in numbers."""

from __future__ import annotations

import sys
import time
from array import array
from collections import Counter

from runtime.driver.scripts.progress import duration
from runtime.driver.scripts.results import MapResult
from runtime.frontends.console.batches.results_file import error_kind, outcome_of


class Summary:
    """Counts results.

    Attributes:
        failed: inputs that failed, by kind of error.
        outcomes: inputs by how they ended.
        skipped: inputs that the results had already.
    """

    def __init__(self) -> None:
        self.failed: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.skipped = 0
        self._repeated = 0
        self._tokens: Counter[str] = Counter()
        self._durations_s = array("d")
        self._began_s = time.monotonic()

    def add(self, result: MapResult) -> None:
        """Count a result."""
        self.outcomes[outcome_of(result)] += 1
        if result.error is not None:
            self.failed[error_kind(result.error)] += 1
        if result.is_repeated:
            self._repeated += 1
            return
        usage = result.usage
        self._tokens["in"] += usage.prompt_token_count or 0
        self._tokens["out"] += usage.candidates_token_count or 0
        self._durations_s.append(result.duration_s)

    def print(self) -> None:
        """Print it on the standard error output: the results may go to the other one."""
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False)
        for name, value in self._rows():
            table.add_row(name, value)
        console = Console(stderr=True)
        if console.is_terminal:
            console.print(table)
        else:
            for name, value in self._rows():
                print(f"{name}\t{value}", file=sys.stderr)

    def _rows(self) -> list[tuple[str, str]]:
        elapsed_s = time.monotonic() - self._began_s
        asked = len(self._durations_s)
        rows = [("done", f"{self.outcomes['finished'] + self.skipped:,}")]
        if self.skipped + self._repeated:
            rows.append(("of these from before", f"{self.skipped + self._repeated:,}"))
        if self.outcomes["paused"]:
            rows.append(("paused", f"{self.outcomes['paused']:,}"))
        rows.append(("failed", f"{self.failed.total():,}"))
        rows += [(f"  {kind}", f"{number:,}") for kind, number in self.failed.most_common()]
        rows.append(("tokens in, out", f"{self._tokens['in']:,}, {self._tokens['out']:,}"))
        if asked:
            in_order = sorted(self._durations_s)
            p50, p99 = in_order[asked // 2], in_order[min(asked - 1, asked * 99 // 100)]
            rows.append(("p50, p99", f"{p50:.2f} s, {p99:.2f} s"))
        rows.append(("rate", f"{asked / max(elapsed_s, 1e-9):,.1f}/s in {duration(elapsed_s)}"))
        return rows
