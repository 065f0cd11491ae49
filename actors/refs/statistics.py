"""The statistics of agents' actors, by process and by agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from actors.messages.protocol.statistics import ConnectionFigures, Statistics


class ProcessStatistics(Struct, frozen=True, kw_only=True):
    """A process with agents.

    Attributes:
        pid: its process id.
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
