"""Sizes of deployments by the rate that they are to bear, as docs/deployment.md shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from actors.messages.config import DEFAULT_LIMITS
from tests.benchmarks.figures import rounded
from tests.capacity.cluster import Cluster
from tests.capacity.simulation import NODES, Conversation, Load, Outcome, bears, most, simulate, turn_ms
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, UnitCosts

PAGE = Path("docs/deployment.md")
BEGIN, END = "<!-- sizing: made by python -m tests.capacity sizing -->", "<!-- end of sizing -->"

BUSY = 0.5
"""A part is sized so that its turns keep it busy for so much of the time. Wake-ups, which turns share, are besides."""

ROWS: Mapping[str, float] = {"small": 50, "medium": 500, "large": 5_000}
"""Turns a second, by size."""
SDK_CALL_MS = 1.6
"""CPU of a call of a model by an SDK, whose answer comes as a whole."""
TALK = Conversation(model_s=2.0, call_ms=SDK_CALL_MS, tool_calls=1, tool_s=0.1)
"""A turn of the table."""
_TURNS = 2_000
_CORES = 8
"""Of a node, at most."""
_QUICK = msgspec.structs.replace(TALK, model_s=0.1, tool_s=0.1)
"""As the table's load is played: queues are the same with any time of the model, since turns come at any times."""
FIELDS = {WEB: "webs", RUNNER: "runners", SESSION: "shards", AGENT: "agents"}
"""The field of a cluster that says how many of a part there are."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table.

    Attributes:
        name: of the size.
        rate: turns a second.
        cluster: that bears them.
        outcome: of the rate on the cluster.
        highest: rate that the cluster bears.
        memory_gb: of all processes but the databases.
    """

    name: str
    rate: float
    cluster: Cluster
    outcome: Outcome
    highest: float
    memory_gb: float

    @property
    def cpu_hours(self) -> float:
        """CPU hours of a million turns that are asked for at the rate, all CPUs counted that are there."""
        cpus = self.cluster.nodes * self.cluster.cores + self.cluster.databases * self.cluster.database_cores
        return cpus / self.rate * 1e6 / 3_600


def for_rate(costs: UnitCosts, cluster: Cluster, conversation: Conversation, rate: float) -> Cluster:
    """The cluster with as many processes of each part as bear the rate when none is busier than BUSY.

    Session actors cost more where there are several, so they are counted once for one, and once for more.
    """
    for _ in range(2):
        can = bears(costs, cluster, conversation)
        needed = {field: math.ceil(rate / BUSY / can[part] * getattr(cluster, field)) for part, field in FIELDS.items()}
        needed["shards"] = max(needed["shards"], cluster.databases, 1) if cluster.on_postgres else 1
        cluster = msgspec.structs.replace(cluster, **needed)
    return cluster


def sizes(costs: UnitCosts) -> list[Size]:
    """The rows of the table."""
    return [_size(costs, name, rate) for name, rate in ROWS.items()]


def markdown(costs: UnitCosts) -> str:
    """The table of sizes and that of CPU, as the page has them."""
    return "\n".join([BEGIN, "", *_sizes_table(sizes(costs)), "", *_cpu_table(costs), "", END])


def with_sizing(page: str, costs: UnitCosts) -> str:
    """The page with the tables in their place.

    Raises:
        ValueError: it has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for the tables: they go between {BEGIN} and {END}")
    return before + markdown(costs) + after


def cpu_hours(costs: UnitCosts, conversation: Conversation) -> tuple[float, float]:
    """CPU hours of a million turns where many come at once: of the nodes, and of the database."""
    cluster = Cluster(shards=2)
    each_ms = {part: turn_ms(costs, cluster, conversation, part) for part in cluster.counts}
    database_ms = each_ms.pop(DATABASE)
    return sum(each_ms.values()) / 3.6, database_ms / 3.6


def _size(costs: UnitCosts, name: str, rate: float) -> Size:
    cluster = for_rate(costs, Cluster(nodes=1, cores=2, database_cores=1), TALK, rate)
    load = Load(sessions=round(rate * 100), rate=rate, turns=_TURNS)
    can = bears(costs, cluster, TALK)
    cluster = _on_cores(cluster, math.ceil(rate / BUSY / can[NODES] * cluster.cores), math.ceil(rate / BUSY / can[DATABASE]))
    outcome = simulate(costs, cluster, load, _QUICK)
    memory_mb = sum(costs.memory_mb[part] * number for part, number in cluster.counts.items() if part in costs.memory_mb)
    memory_gb = (memory_mb + _caches_mb(cluster)) / 1e3
    highest = most(costs, cluster, TALK)
    return Size(name=name, rate=rate, cluster=cluster, outcome=outcome, highest=highest, memory_gb=memory_gb)


def _on_cores(cluster: Cluster, cores: int, database_cores: int) -> Cluster:
    """The cluster with so many cores: of one node, or of several of the same size."""
    nodes = math.ceil(cores / _CORES)
    each = max(2, math.ceil(cores / nodes))
    return msgspec.structs.replace(cluster, nodes=nodes, cores=each, database_cores=database_cores)


def _caches_mb(cluster: Cluster) -> float:
    """Copies of what the store has, at most: the processes of a node share the memory for them."""
    return cluster.nodes * DEFAULT_LIMITS.max_cache_bytes / 1e6


def _sizes_table(rows: Sequence[Size]) -> list[str]:
    waits_ms = 1_000 * _QUICK.waits_s
    heads = ["", *(row.name for row in rows)]
    lines = {
        "turns a second": [rounded(row.rate) if row.rate >= 100 else f"{row.rate:g}" for row in rows],
        "web programs, up to a CPU each": [f"{row.cluster.webs}" for row in rows],
        "Runners (`runners`)": [f"{row.cluster.runners}" for row in rows],
        "Session actors (`session_shards`)": [f"{row.cluster.shards}" for row in rows],
        "processes of agents, up to a CPU each": [f"{row.cluster.agents}" for row in rows],
        "nodes for all of these": [f"{row.cluster.nodes} of {row.cluster.cores} CPUs" for row in rows],
        "memory of all of these": [f"{row.memory_gb:.1f} GB" for row in rows],
        "CPUs of PostgreSQL": [f"{row.cluster.database_cores}" for row in rows],
        "CPU hours of a million turns": [f"{row.cpu_hours:.2f}" for row in rows],
        "CPUs in use, nodes and PostgreSQL": [f"{_used(row, NODES):.2f} and {_used(row, DATABASE):.2f}" for row in rows],
        "added to the model's time: p50": [f"{row.outcome.p50_ms - waits_ms:.0f} ms" for row in rows],
        "added to the model's time: p99": [f"{row.outcome.p99_ms - waits_ms:.0f} ms" for row in rows],
        "turns a second that it bears at most": [_two_digits(row.highest) for row in rows],
    }
    return [_line(heads), _line(["---"] * len(heads)), *(_line([name, *cells]) for name, cells in lines.items())]


def _two_digits(value: float) -> str:
    """A value that is no more exact."""
    return f"{float(f'{value:.1e}'):,.0f}"


def _used(row: Size, part: str) -> float:
    return row.outcome.parts[part].mean * row.outcome.parts[part].number


def _cpu_table(costs: UnitCosts) -> list[str]:
    heads = ["CPU hours that a million turns take at least", "nodes", "nodes, without the models' SDKs", "PostgreSQL"]
    rows = []
    for told, calls in (("no tool is called", 0), ("one call of a tool", 1), ("five calls of tools", 5)):
        bare, database = cpu_hours(costs, Conversation(tool_calls=calls))
        nodes, _ = cpu_hours(costs, Conversation(tool_calls=calls, call_ms=SDK_CALL_MS))
        rows.append([told, *(f"{each:.2f}" for each in (nodes, bare, database))])
    return [_line(heads), _line(["---"] * len(heads)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
