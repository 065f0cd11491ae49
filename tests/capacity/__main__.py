"""`python -m tests.capacity NODES SESSIONS RATE`: play a load on a cluster, and say where it saturates."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from tests.benchmarks.figures import rounded
from tests.benchmarks.plain import start_ray
from tests.capacity import measure as measuring
from tests.capacity import unit_costs
from tests.capacity.cluster import Cluster, ClusterError
from tests.capacity.simulation import NODES, Conversation, Load, Outcome, most, played, simulate
from tests.capacity.sizing import PAGE, SDK_CALL_MS, for_rate, markdown, with_sizing
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, NoUnitCostsError, UnitCosts

CLOSED = "closed"
_SHORTEST_S = 0.1
_MANY = 0.5
"""Of the sessions, when so many have a turn under way others wait."""

NAMES = {
    WEB: "web programs",
    RUNNER: "Runners",
    SESSION: "Session actors",
    AGENT: "processes of agents",
    DATABASE: "databases (cores)",
    NODES: "nodes (cores)",
}
"""By part, its name in tables."""

app = typer.Typer(add_completion=False, help=__doc__)
Count = Annotated[int | None, typer.Option(min=1, show_default="as sized for the rate", help="How many there are.")]


@app.command()
def cluster(
    nodes: Annotated[int, typer.Argument(help="Nodes, without those of databases.")],
    sessions: Annotated[int, typer.Argument(help="Conversations that ask for turns.")],
    rate: Annotated[str, typer.Argument(help=f"Turns a second; {CLOSED!r}: each session asks again when it has its answer.")],
    cores: Annotated[int, typer.Option(help="Of each node.")] = 8,
    webs: Count = None,
    runners: Count = None,
    shards: Count = None,
    agents: Count = None,
    databases: Annotated[int, typer.Option(help="PostgreSQL servers; 0: SQLite, on one node.")] = 1,
    database_cores: Annotated[int, typer.Option(help="Of each database's machine.")] = 8,
    network_ms: Annotated[float, typer.Option(help="A message's way from node to node.")] = 0.1,
    flush_ms: Annotated[float, typer.Option(help="A database's wait for its disk, in a transaction.")] = 1.0,
    model_s: Annotated[float, typer.Option(min=0, help="The model's time for an answer.")] = 2.0,
    call_ms: Annotated[float, typer.Option(min=0, help="CPU of each call of the model, in its SDK.")] = SDK_CALL_MS,
    tool_calls: Annotated[int, typer.Option(min=0, help="Of a turn; each is one more call of the model.")] = 0,
    tool_s: Annotated[float, typer.Option(min=0, help="The time of a tool's call.")] = 0.1,
    turns: Annotated[int, typer.Option(help="To play and count.")] = 5_000,
    seed: Annotated[int, typer.Option(help="Of what is left to chance.")] = 0,
) -> None:
    """Play a load on a cluster: how busy each part is, the first bottleneck, the highest rate, and the latencies of a turn."""
    costs = unit_costs.read()
    asked = _rate(rate)
    conversation = Conversation(model_s=model_s, call_ms=call_ms, tool_calls=tool_calls, tool_s=tool_s)
    load = Load(sessions=sessions, rate=asked, turns=turns)
    counts = {"webs": webs, "runners": runners, "shards": shards, "agents": agents}
    given = {name: number for name, number in counts.items() if number is not None}
    base = Cluster(
        nodes=nodes,
        cores=cores,
        databases=databases,
        database_cores=database_cores,
        network_ms=network_ms,
        flush_ms=flush_ms,
        **{"shards": max(1, databases)} | given,
    )
    # A closed loop asks for no more than comes of it when nothing but the model takes time.
    sized = for_rate(costs, base, conversation, asked or sessions / max(conversation.waits_s, _SHORTEST_S))
    made = msgspec.structs.replace(sized, **given)
    outcome, highest = simulate(costs, made, load, conversation, seed), most(costs, made, conversation, seed)
    console = _console()
    console.print(_parts_table(made, outcome))
    for sentence in _verdict(outcome, load, highest):
        console.print(sentence)


@app.command()
def measure() -> None:
    """Measure unit costs on this machine, in two minutes or so, and put them into unit_costs.json."""
    # As clusters have it: a local one shares more memory.
    os.environ.setdefault("RAYGROVE_LOCAL_RAY", "plain")
    start_ray()
    costs = measuring.unit_costs(measuring.measured())
    unit_costs.write(costs)
    _console().print(_measured_table(costs))


@app.command()
def sizing(
    write: Annotated[bool, typer.Option("--write", help=f"Put the tables into {PAGE} as well.")] = False,
) -> None:
    """Print the tables of sizes and costs that the page on deployment has."""
    costs = unit_costs.read()
    print(markdown(costs))
    if write:
        PAGE.write_text(with_sizing(PAGE.read_text(), costs))


def main(arguments: Sequence[str]) -> None:
    """Run a command; numbers alone are those of a cluster. Wrong ones end in a sentence, and with 2."""
    names = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    is_named = bool({*names, "--help"}.intersection(arguments[:1]))
    try:
        app(list(arguments) if is_named else ["cluster", *arguments])
    except (ClusterError, NoUnitCostsError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _rate(text: str) -> float | None:
    if text == CLOSED:
        return None
    try:
        return float(text)
    except ValueError:
        raise ClusterError(f"the rate is {text!r}: give turns a second, or {CLOSED!r}") from None


def _parts_table(cluster: Cluster, outcome: Outcome) -> Table:
    """How busy every part is, and what it bears."""
    made = Table("part", title=f"{cluster.nodes} nodes of {cluster.cores} cores")
    for column in ("number", "utilisation", "bears, turns/s"):
        made.add_column(column, justify="right")
    for part, busy in outcome.parts.items():
        bears = f"{rounded(busy.bears)}{' ←' if part == outcome.bottleneck else ''}"
        made.add_row(NAMES[part], f"{busy.number:g}", f"{busy.mean:.0%}", bears)
    return made


def _verdict(outcome: Outcome, load: Load, highest: float) -> list[str]:
    """The same in sentences: latencies, what is first to be too busy, and the highest rate."""
    told = [
        f"{rounded(outcome.rate)} turns/s end, {rounded(outcome.at_once)} are under way.",
        f"A turn takes p50 {rounded(outcome.p50_ms)} ms, p95 {rounded(outcome.p95_ms)} ms, p99 {rounded(outcome.p99_ms)} ms.",
        f"First bottleneck: {NAMES[outcome.bottleneck]}. Highest rate: {rounded(highest)} turns/s.",
    ]
    if load.rate is not None and load.rate > highest:
        told.append(f"Saturated: {rounded(load.rate)} turns/s are asked for. The line grows, and latencies with it.")
    elif load.rate is not None and outcome.at_once > _MANY * load.sessions:
        told.append(f"Turns wait for others of their session: {load.sessions:,} sessions have one at a time each.")
    return told


def _measured_table(costs: UnitCosts) -> Table:
    """Each load as it was measured, and as it is simulated with the costs that follow from all of them."""
    made = Table("sessions", title=f"{costs.measured} · {costs.machine}: measured, simulated")
    for column in ("turns/s", "p50, ms", "p99, ms", "cores of other programs"):
        made.add_column(column, justify="right")
    for load in costs.loads:
        outcome = played(costs, load)
        pairs = (load.rate, outcome.rate), (load.p50_ms, outcome.p50_ms), (load.p99_ms, outcome.p99_ms)
        made.add_row(str(load.sessions), *(f"{rounded(was)}, {rounded(said)}" for was, said in pairs), f"{load.others:.2f}")
    return made


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=140)


if __name__ == "__main__":
    main(sys.argv[1:])
