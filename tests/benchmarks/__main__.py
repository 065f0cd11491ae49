"""`python -m tests.benchmarks`: measure everything, print one table, and write RESULTS.md."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import ray
import typer
from rich.console import Console

from tests.benchmarks import (
    activation,
    burst,
    comparison,
    depth,
    environments,
    fairness,
    flow,
    footprint,
    gemini,
    graphs,
    loop,
    maps,
    overloading,
    own_models,
    pages,
    plain,
    postgres,
    recovery,
    report,
    results,
    sessions,
    startup,
    storage,
    streaming,
    telemetry,
    throughput,
    transfer,
    trees,
    turns,
    usage,
    web,
    working_set,
)
from tests.benchmarks.figures import Figure, table, timed_ms
from tests.benchmarks.pace import pace_ms
from tests.benchmarks.peers.peer import Report
from tests.benchmarks.plan import FULL, QUICK, Plan

BENCHMARKS: dict[str, Callable[[Plan], list[Figure]]] = {
    module.NAME: module.measure
    for module in (
        startup,
        activation,
        trees,
        own_models,
        turns,
        throughput,
        postgres,
        sessions,
        burst,
        fairness,
        overloading,
        pages,
        usage,
        maps,
        transfer,
        loop,
        depth,
        flow,
        graphs,
        streaming,
        web,
        gemini,
        footprint,
        plain,
        storage,
        recovery,
        working_set,
        telemetry,
    )
}


def measured(name: str, plan: Plan) -> list[Figure]:
    """The figures of a benchmark."""
    return [msgspec.structs.replace(figure, benchmark=name) for figure in BENCHMARKS[name](plan)]


T = TypeVar("T")
Names = Annotated[list[str] | None, typer.Option("--only", help=f"One of {', '.join(BENCHMARKS)}; may be given again.")]


def main(
    only: Names = None,
    quick: Annotated[bool, typer.Option(help="Fewer turns, a minute or two.")] = False,
    peers: Annotated[bool | None, typer.Option(help="Other projects as well; so it is unless --quick or --only.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="Write the results to this folder; a whole run always writes its own.")
    ] = None,
) -> None:
    """Measure what turns, transfers, loops, streams, starts and losses cost, beside raw Ray and other projects."""
    console = Console() if sys.stdout.isatty() else Console(width=160)
    unknown = sorted(set(only or ()) - set(BENCHMARKS))
    if unknown:
        raise typer.BadParameter(f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    plan, whole = QUICK if quick else FULL, not quick and not only
    peers = whole if peers is None else peers
    if peers:
        console.print(f"making what is missing of {environments.FOLDER} …", style="dim")
        comparison.prepare()
    run = Run(console, results.begun(_command()))
    try:
        run.add("Ray", lambda: [Figure("Ray starts", timed_ms(plain.start_ray), "ms", benchmark="startup")])
        for name in only or BENCHMARKS:
            run.add(name, lambda: measured(name, plan))  # noqa: B023
        if peers:
            # The machine is theirs alone, as it was ours.
            ray.shutdown()
            run.compare(plan)
    finally:
        # Save what was measured before the failure: it took minutes.
        console.print(table(run.results.figures, run.title))
    if whole or into is not None:
        report.write(run.results, into or results.FOLDER, report.README if whole and into is None else None)


class Run:
    """A run under way: its results grow, benchmark by benchmark."""

    def __init__(self, console: Console, begun: results.Results) -> None:
        self._console = console
        self.results = begun

    @property
    def title(self) -> str:
        """The title of the table."""
        load = " ".join(f"{each:.2f}" for each in self.results.load)
        return f"{self.results.began} · {self.results.machine}, load {load} · Ray {ray.__version__}"

    def add(self, name: str, measure: Callable[[], list[Figure]]) -> None:
        """Measure one benchmark."""
        figures, took_s = self._timed(name, measure)
        self._put(name, took_s, [*self.results.figures, *figures])

    def compare(self, plan: Plan) -> None:
        """Measure the peers. One that fails is reported and left out: our own figures are worth keeping without it."""
        reports: dict[str, Report] = {}
        for peer in comparison.PEERS:
            try:
                reports[peer], took_s = self._timed(peer, lambda: comparison.measure(plan, peer))  # noqa: B023
            except subprocess.CalledProcessError as error:
                self._console.print(f"{peer} failed: {error}", style="red")
                continue
            self._put(peer, took_s, comparison.beside(self.results.figures, reports), {peer: reports[peer].version})

    def _timed(self, name: str, measure: Callable[[], T]) -> tuple[T, float]:
        self._console.print(f"measuring {name} …", style="dim")
        self.results = msgspec.structs.replace(self.results, pace_ms={**self.results.pace_ms, name: pace_ms()})
        began_s = time.perf_counter()
        return measure(), time.perf_counter() - began_s

    def _put(self, name: str, took_s: float, figures: list[Figure], versions: dict[str, str] | None = None) -> None:
        self.results = msgspec.structs.replace(
            self.results,
            figures=figures,
            took_s={**self.results.took_s, name: took_s},
            versions={**self.results.versions, **(versions or {})},
        )


def _command() -> str:
    arguments = " ".join(sys.argv[1:])
    return f"make bench ARGS='{arguments}'" if arguments else "make bench"


if __name__ == "__main__":
    typer.run(main)
