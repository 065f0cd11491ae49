"""Unit costs from loads: what stays of a turn's CPU when many come at once, and what each pass of an event loop takes besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import uvloop

from actors import LlmAgent
from tests.benchmarks import results
from tests.benchmarks.depth import CALLS, ToolCallingModel, look
from tests.benchmarks.plan import FULL
from tests.benchmarks.workloads import ROOT, instant_agent, runtime
from tests.capacity.loads import LEVELS, MOST, MeasuredDeployment, combined
from tests.capacity.simulation import Outcome, played
from tests.capacity.unit_costs import DATABASE, PASSES, SESSION, MeasuredLoad, UnitCost, UnitCosts
from tests.support.servers.postgres_server import postgres_server, short_folder
from tests.support.sharded_runtimes import own_tables

ROUNDS = 3
HOPS = 6
"""Between processes, until a program has its answer."""
_TOOL_TURNS = 512
_APPROXIMATIONS = 4
"""The passes of a turn follow from what a pass costs, and the other way round: so often each is taken from the other."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured.

    Attributes:
        loads: on SQLite, at each level.
        tools: the highest level, with calls of tools.
        postgres: the lowest and the highest level on PostgreSQL.
        sharded: the highest level on PostgreSQL, with two Session actors.
        memory_mb: of a process, by part.
    """

    loads: Sequence[MeasuredLoad]
    tools: MeasuredLoad
    postgres: Sequence[MeasuredLoad]
    sharded: MeasuredLoad
    memory_mb: Mapping[str, float]


class MeasuredLoads(msgspec.Struct, frozen=True):
    """Loads on one deployment, and the memory of its processes then."""

    loads: Sequence[MeasuredLoad]
    memory_mb: Mapping[str, float]


def measured() -> Measured:
    """Measure on this machine. Ray has to run. Takes two minutes or so."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        plain = uvloop.run(_loads(folder, instant_agent(), ROUNDS, tuple(LEVELS)))
        calling = LlmAgent(name=ROOT, model=ToolCallingModel(), tools=[look])
        tools = uvloop.run(_loads(folder, calling, 1, (MOST,), turns=_TOOL_TURNS))
        server = stack.enter_context(postgres_server(stack.enter_context(short_folder())))
        on_server = partial(_loads, folder, instant_agent(), 2, session_store=own_tables(server.url), postmaster=server.pid)
        postgres = uvloop.run(on_server((1, MOST)))
        sharded = uvloop.run(on_server((MOST,), shards=2))
    return Measured(
        loads=plain.loads,
        tools=tools.loads[0],
        postgres=postgres.loads,
        sharded=sharded.loads[0],
        memory_mb=plain.memory_mb,
    )


async def _loads(
    folder: Path,
    root: LlmAgent,
    rounds: int,
    levels: Sequence[int],
    *,
    turns: int = 0,
    shards: int = 1,
    session_store: str = "",
    postmaster: int | None = None,
) -> MeasuredLoads:
    """Each level in rounds, all levels by turns."""
    async with runtime(FULL, root, folder, session_store=session_store, session_shards=shards) as rt:
        deployment = MeasuredDeployment(rt, postmaster)
        await deployment.warm_up(turns)
        done = [[await deployment.load(sessions, turns) for sessions in levels] for _ in range(rounds)]
        memory_mb = deployment.memory_mb()
    return MeasuredLoads([combined(rounds_of_one) for rounds_of_one in zip(*done, strict=True)], memory_mb)


def unit_costs(made: Measured) -> UnitCosts:
    """The unit costs that follow from what was measured."""
    few, many = made.loads[0], made.loads[-1]
    event_ms = {part: max(0.0, made.tools.cpu_ms[part] - many.cpu_ms[part]) / (2 * CALLS) for part in many.cpu_ms}
    costs = plain_costs(made.loads, event_ms)
    alone, together = played(costs, few), played(costs, many)
    few, many = made.postgres
    on_postgres = (SESSION, DATABASE)
    return msgspec.structs.replace(
        costs,
        postgres={part: _cost(few, many, part, alone, together, event_ms.get(part, 0.0)) for part in on_postgres},
        shared_ms={part: round(max(0.0, made.sharded.cpu_ms[part] - many.cpu_ms[part]), 4) for part in on_postgres},
        memory_mb=made.memory_mb,
    )


def plain_costs(loads: Sequence[MeasuredLoad], event_ms: Mapping[str, float]) -> UnitCosts:
    """The unit costs that follow from loads on SQLite, of which the first is of one session and the last of many."""
    few, many = loads[0], loads[-1]
    begun = results.begun("")
    costs = UnitCosts(
        measured=begun.began,
        machine=begun.machine,
        cores=begun.cpus,
        versions=begun.versions,
        parts={part: UnitCost(pass_ms=0.0, turn_ms=many.cpu_ms[part]) for part in PASSES if part != DATABASE},
        postgres={},
        shared_ms={},
        hop_ms=0.0,
        memory_mb={},
        loads=loads,
    )
    for _ in range(_APPROXIMATIONS):
        alone, together = played(costs, few), played(costs, many)
        parts = {part: _cost(few, many, part, alone, together, event_ms.get(part, 0.0)) for part in costs.parts}
        costs = msgspec.structs.replace(costs, parts=parts)
    # What a turn that is alone takes beside its CPU, the wait for the disk included.
    waits_ms = few.p50_ms - played(costs, few).p50_ms
    return msgspec.structs.replace(costs, hop_ms=round(max(0.0, waits_ms / HOPS), 4))


def _cost(lone: MeasuredLoad, crowd: MeasuredLoad, part: str, few: Outcome, many: Outcome, event_ms: float) -> UnitCost:
    """A part's cost: what a turn that is alone has more than one of many is of the passes that it has more."""
    is_database = part == DATABASE
    passes, fewer = (lone.commits, crowd.commits) if is_database else (few.passes[part], many.passes[part])
    pass_ms = max(0.0, lone.cpu_ms[part] - crowd.cpu_ms[part]) / (passes - fewer)
    turn_ms = max(0.0, crowd.cpu_ms[part] - pass_ms * fewer)
    # What is written of a further event is what is written of any other.
    return UnitCost(
        pass_ms=round(pass_ms, 4),
        turn_ms=round(turn_ms, 4),
        event_ms=round(turn_ms / PASSES[part] if is_database else event_ms, 4),
    )
