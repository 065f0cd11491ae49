"""What `Runtime.statistics` returns, and how it is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.messages import protocol as p
from actors.messages.protocol.statistics import ConnectionFigures, Statistics
from actors.messages.shown import Shown
from runtime.engine.interface import Engine


class RuntimeStatistics(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """The living actors of a deployment and their counts.

    Attributes:
        session, runner: the Session actor and the Runner. Where there are several of a kind, sums, and `parts` has each.
        agents: the agents that have an actor, by name, each with its actor's name, process id and counts. An agent that several
            Runners have started has sums and `parts` too.
        processes: the processes in which these agents live, by the names of their Ray actors; none on the local engine. How many
            there may be is in `runner.counts["max_hosts"]`, and why so many in `runner.host_limit`.
        models: by name, how many calls of a model with limits were granted, repeated, run and wait.
        limiter: the actor that limits models; None where no model is limited.
        mcp: the actors of MCP servers that have started, by the names of the servers.
        connections: how messages travel to and from this program; None on the local engine. Those of the other processes are in
            `connections` of their actors.
        control_service_away_s: for how long this program has not reached the control service of Ray; 0: it does.
    """

    session: p.Statistics
    runner: p.Statistics
    agents: Mapping[str, p.Statistics]
    processes: Mapping[str, ProcessStatistics] = {}
    models: Mapping[str, Mapping[str, int]] = {}
    limiter: p.Statistics | None = None
    mcp: Mapping[str, p.Statistics] = {}
    connections: p.ConnectionFigures | None = None
    control_service_away_s: float = 0.0


async def read_statistics(engine: Engine) -> RuntimeStatistics:
    """Ask the deployment's actors for their counts. Raises what their clients raise."""
    runner, session = await asyncio.gather(engine.runner.statistics(), engine.session.statistics())
    limiter = await engine.limiter.statistics() if engine.limiter is not None else None
    servers = await engine.mcp_servers()
    figures = await asyncio.gather(*(server.statistics() for server in servers.values()))
    processes = by_process(runner.agents) if runner.host_limit else {}
    return RuntimeStatistics(
        session=session,
        runner=runner,
        agents=by_agent(runner.agents),
        processes=processes,
        models=limiter.models if limiter is not None else {},
        limiter=limiter,
        mcp=dict(zip(servers, figures, strict=True)),
        connections=engine.connections(),
        control_service_away_s=engine.control_service_away_s,
    )


class ProcessStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """A process with agents.

    Attributes:
        agents: the agents that live in it, in the order in which they moved in; replicas as `agent/1`, `agent/2` …
        connections: how messages travel to and from it.
        node: the address of its machine.
        memory_bytes: the memory that it has for itself; 0 where that is not known.
    """

    pid: int
    agents: Sequence[str]
    connections: ConnectionFigures | None = None
    node: str = ""
    memory_bytes: int = 0


def by_process(statistics: Iterable[Statistics]) -> dict[str, ProcessStatistics]:
    """The processes of agents, by the names of their Ray actors."""
    found: dict[str, list[Statistics]] = {}
    for each in statistics:
        found.setdefault(each.actor, []).append(each)
    return {
        actor: ProcessStatistics(
            pid=living[0].pid,
            agents=[each.agent for each in living],
            connections=living[0].connections,
            node=living[0].node,
            memory_bytes=living[0].memory_bytes,
        )
        for actor, living in found.items()
    }


def by_agent(statistics: Iterable[Statistics]) -> dict[str, Statistics]:
    """The statistics of agents by their names. An agent may have several actors."""
    found: dict[str, list[Statistics]] = {}
    for each in statistics:
        found.setdefault(each.agent, []).append(each)
    return {agent: Statistics.joined(parts) for agent, parts in found.items()}
