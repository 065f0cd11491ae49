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
from tests.capacity.measuring import LEVELS, MOST, MeasuredDeployment, combined, flush_ms
from tests.capacity.simulation import Outcome, played
from tests.capacity.unit_costs import (
    DATABASE,
    PASSES,
    SESSION,
    STORE,
    MeasuredLoad,
    UnitCost,
    UnitCosts,
)
from tests.support.servers.postgres_server import postgres_server, short_folder
from tests.support.sharded_runtimes import own_tables

ROUNDS = 3
_TOOL_TURNS = 512
_HOPS = 6
"""Of a turn, one after the other."""
_APPROXIMATIONS = 4
"""The passes of a turn follow from what a pass costs, and the other way round: so often each is taken from the other."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured.

    Attributes:
        loads: on SQLite, at each level.
        tools: the highest level, with calls of tools.
        postgres: the lowest and the highest level on PostgreSQL.
        sharded: the highest level on PostgreSQL, with two Session actors.
        flush_ms: a transaction's wait for the disk.
        memory_mb: of a process, by part.
    """

    loads: Sequence[MeasuredLoad]
    tools: MeasuredLoad
    postgres: Sequence[MeasuredLoad]
    sharded: MeasuredLoad
    flush_ms: float
    memory_mb: Mapping[str, float]


class MeasuredLoads(msgspec.Struct, frozen=True):
    """Loads on one deployment, and the memory of its processes then."""

    loads: Sequence[MeasuredLoad]
    memory_mb: Mapping[str, float]


def measured() -> Measured:
    """Measure on this machine. Ray has to run. Takes two minutes or so."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        flush = flush_ms(folder)
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
        flush_ms=flush,
        memory_mb=plain.memory_mb,
    )


def measured_loads() -> Sequence[MeasuredLoad]:
    """Measure the loads on SQLite only. Ray has to run."""
    with TemporaryDirectory() as folder:
        return uvloop.run(_loads(Path(folder), instant_agent(), ROUNDS, tuple(LEVELS))).loads


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
    begun = results.begun("")
    lone, crowd = made.loads[0], made.loads[-1]
    events = 2 * CALLS
    event_ms = {part: max(0.0, made.tools.cpu_ms[part] - crowd.cpu_ms[part]) / events for part in crowd.cpu_ms}
    costs = UnitCosts(
        measured=begun.began,
        machine=begun.machine,
        cores=begun.cpus,
        versions=begun.versions,
        parts={part: UnitCost(pass_ms=0.0, turn_ms=crowd.cpu_ms[part]) for part in PASSES if part != DATABASE},
        postgres={},
        shared_ms={},
        hop_ms=0.0,
        flush_ms=round(made.flush_ms, 4),
        memory_mb=made.memory_mb,
        loads=made.loads,
    )
    for _ in range(_APPROXIMATIONS):
        few, many = (played(costs, each) for each in (lone, crowd))
        costs = msgspec.structs.replace(
            costs,
            parts={part: _cost(lone, crowd, part, few, many, event_ms[part]) for part in costs.parts},
            hop_ms=round(max(0.0, costs.hop_ms + (lone.p50_ms - few.p50_ms) / _HOPS), 4),
        )
    lone, crowd = made.postgres
    return msgspec.structs.replace(
        costs,
        postgres={part: _cost(lone, crowd, part, few, many, event_ms.get(part, 0.0)) for part in (SESSION, STORE, DATABASE)},
        shared_ms={
            part: round(max(0.0, made.sharded.cpu_ms[part] - crowd.cpu_ms[part]), 4) for part in (SESSION, STORE, DATABASE)
        },
    )


def _cost(lone: MeasuredLoad, crowd: MeasuredLoad, part: str, few: Outcome, many: Outcome, event_ms: float) -> UnitCost:
    """A part's cost: what a turn that is alone has more than one of many is of the passes that it has more."""
    is_written = part in (STORE, DATABASE)
    passes, fewer = (lone.commits, crowd.commits) if is_written else (few.passes[part], many.passes[part])
    pass_ms = max(0.0, lone.cpu_ms[part] - crowd.cpu_ms[part]) / (passes - fewer)
    turn_ms = max(0.0, crowd.cpu_ms[part] - pass_ms * fewer)
    # What is written of a further event is what is written of any other.
    return UnitCost(
        pass_ms=round(pass_ms, 4),
        turn_ms=round(turn_ms, 4),
        event_ms=round(turn_ms / PASSES[part] if is_written else event_ms, 4),
    )
