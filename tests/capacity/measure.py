"""Unit costs from loads: what stays of a turn's CPU when many come at once, and what each pass of an event loop takes besides."""

from __future__ import annotations

import asyncio
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
from tests.capacity.measuring.commits import commit_costs, spread
from tests.capacity.measuring.loads import LEVELS, MOST, MeasuredDeployment, combined
from tests.capacity.measuring.takeovers import takeovers_ms
from tests.capacity.measuring.wakes import wake_ms
from tests.capacity.simulation import Outcome, played
from tests.capacity.unit_costs import DATABASE, LOG_PAGES, PASSES, SESSION, STORE, CommitCosts, MeasuredLoad, UnitCost, UnitCosts
from tests.support.servers.postgres_server import postgres_server, short_folder
from tests.support.sharded_runtimes import own_tables

ROUNDS = 3
VALIDATION_ROUNDS = 5
_TOOL_TURNS = 512
_APPROXIMATIONS = 4
"""The passes of a turn follow from what a pass costs, and the other way round: so often each is taken from the other."""


class Beside(msgspec.Struct, frozen=True):
    """Costs that are measured beside loads, when nothing else runs.

    Attributes:
        commits, hop_ms, takeovers_ms: see UnitCosts.
    """

    commits: CommitCosts
    hop_ms: float
    takeovers_ms: Sequence[float]


def measured_beside() -> Beside:
    """Measure them. Takes ten seconds or so."""
    return Beside(commit_costs(), wake_ms(), takeovers_ms())


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured.

    Attributes:
        loads: on SQLite, at each level.
        tools: the highest level, with calls of tools.
        postgres: the lowest and the highest level on PostgreSQL.
        sharded: the highest level on PostgreSQL, with two Session actors.
        beside: what loads do not tell.
        memory_mb: of a process, by part.
    """

    loads: Sequence[MeasuredLoad]
    tools: MeasuredLoad
    postgres: Sequence[MeasuredLoad]
    sharded: MeasuredLoad
    beside: Beside
    memory_mb: Mapping[str, float]


class MeasuredLoads(msgspec.Struct, frozen=True):
    """Loads on one deployment, and the memory of its processes then."""

    loads: Sequence[MeasuredLoad]
    memory_mb: Mapping[str, float]


def measured() -> Measured:
    """Measure on this machine. Ray has to run. Takes two minutes or so."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        beside = measured_beside()
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
        beside=beside,
        memory_mb=plain.memory_mb,
    )


class Round(msgspec.Struct, frozen=True):
    """Unit costs, and loads to be compared with what is simulated of them, of the same seconds.

    Attributes:
        costs: none of PostgreSQL, and none of further events.
        loads: none of which the costs are taken from.
    """

    costs: UnitCosts
    loads: Sequence[MeasuredLoad]


def measured_rounds(rounds: int = VALIDATION_ROUNDS) -> Sequence[Round]:
    """Measure costs and loads on SQLite by turns. Ray has to run. Takes a minute and a half or so."""
    with TemporaryDirectory() as folder:
        return uvloop.run(_rounds(Path(folder), rounds))


async def _rounds(folder: Path, rounds: int) -> list[Round]:
    found: list[tuple[MeasuredLoad, MeasuredLoad, Beside, Sequence[MeasuredLoad]]] = []
    async with runtime(FULL, instant_agent(), folder) as rt:
        deployment = MeasuredDeployment(rt)
        await deployment.warm_up()
        for _ in range(rounds):
            few = await deployment.load(1)
            beside = await asyncio.to_thread(measured_beside)
            many = await deployment.load(MOST)
            found.append((few, many, beside, [await deployment.load(sessions) for sessions in LEVELS]))
    return [Round(plain_costs(few, many, beside), loads) for few, many, beside, loads in found]


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
    events = 2 * CALLS
    event_ms = {part: max(0.0, made.tools.cpu_ms[part] - many.cpu_ms[part]) / events for part in many.cpu_ms}
    costs = plain_costs(few, many, made.beside, event_ms)
    alone, together = played(costs, few), played(costs, many)
    few, many = made.postgres
    return msgspec.structs.replace(
        costs,
        postgres={part: _cost(few, many, part, alone, together, event_ms.get(part, 0.0)) for part in (SESSION, STORE, DATABASE)},
        shared_ms={
            part: round(max(0.0, made.sharded.cpu_ms[part] - many.cpu_ms[part]), 4) for part in (SESSION, STORE, DATABASE)
        },
        memory_mb=made.memory_mb,
        loads=made.loads,
    )


def plain_costs(few: MeasuredLoad, many: MeasuredLoad, beside: Beside, event_ms: Mapping[str, float] | None = None) -> UnitCosts:
    """The unit costs that follow from a load of one session and one of many on SQLite, those of PostgreSQL left out."""
    begun = results.begun("")
    costs = UnitCosts(
        measured=begun.began,
        machine=begun.machine,
        cores=begun.cpus,
        versions=begun.versions,
        parts={part: UnitCost(pass_ms=0.0, turn_ms=many.cpu_ms[part]) for part in PASSES if part != DATABASE},
        postgres={},
        shared_ms={},
        hop_ms=round(beside.hop_ms, 4),
        takeovers_ms=spread(beside.takeovers_ms),
        commits=beside.commits,
        memory_mb={},
        loads=[few, many],
    )
    lone, crowd = _without_checkpoints(few, beside.commits), _without_checkpoints(many, beside.commits)
    for _ in range(_APPROXIMATIONS):
        alone, together = played(costs, few), played(costs, many)
        parts = {part: _cost(lone, crowd, part, alone, together, (event_ms or {}).get(part, 0.0)) for part in costs.parts}
        costs = msgspec.structs.replace(costs, parts=parts)
    return costs


def _without_checkpoints(load: MeasuredLoad, commits: CommitCosts) -> MeasuredLoad:
    """A load on SQLite without the store's CPU for checkpoints, which is simulated by itself."""
    checkpoints = load.commits * commits.log_pages(PASSES[STORE] / load.commits) / LOG_PAGES
    store_ms = max(0.0, load.cpu_ms[STORE] - checkpoints * commits.checkpoint_cpu_ms)
    return msgspec.structs.replace(load, cpu_ms={**load.cpu_ms, STORE: store_ms})


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
