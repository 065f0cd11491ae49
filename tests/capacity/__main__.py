"""`python -m tests.capacity NODES SESSIONS RATE`: play a load on a cluster, and say where it saturates."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from tests.benchmarks.plain import start_ray
from tests.capacity import measure as measuring
from tests.capacity import tables, unit_costs
from tests.capacity.cluster import Cluster, ClusterError
from tests.capacity.simulation import Load, most, played, simulate
from tests.capacity.sizing import PAGE, SDK_CALL_MS, for_rate, markdown, with_sizing
from tests.capacity.turn import Conversation
from tests.capacity.unit_costs import NoUnitCostsError

CLOSED = "closed"
_SHORTEST_S = 0.1

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
    console.print(tables.parts_table(made, outcome))
    for sentence in tables.verdict(outcome, load, highest):
        console.print(sentence)


@app.command()
def measure() -> None:
    """Measure unit costs on this machine, in two minutes or so, and put them into unit_costs.json."""
    _start_ray()
    costs = measuring.unit_costs(measuring.measured())
    unit_costs.write(costs)
    _console().print(tables.costs_table(costs))
    _show([tables.compared([(load, played(costs, load))]) for load in costs.loads])


@app.command()
def validate() -> None:
    """Measure costs and closed loops by turns, and compare each loop with its simulation. Ends with 1 when they differ."""
    _start_ray()
    rounds = measuring.measured_rounds()
    outcomes = [[played(each.costs, load, seed) for load in each.loads] for seed, each in enumerate(rounds)]
    levels = zip(*(zip(each.loads, those, strict=True) for each, those in zip(rounds, outcomes, strict=True)), strict=True)
    comparisons = [tables.compared(level) for level in levels]
    _show(comparisons)
    if any(each.wrong for each in comparisons):
        raise typer.Exit(1)


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


def _show(comparisons: Sequence[tables.Comparison]) -> None:
    console = _console()
    console.print(tables.validation(comparisons))
    if busy := tables.disturbance(comparisons):
        console.print(busy, style="red")


def _start_ray() -> None:
    # As clusters have it: a local one shares more memory.
    os.environ.setdefault("RAYGROVE_LOCAL_RAY", "plain")
    start_ray()


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=140)


if __name__ == "__main__":
    main(sys.argv[1:])
