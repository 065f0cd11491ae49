"""Sums of the statistics of several actors of a kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from actors.messages.operating.tally import sums
from actors.messages.protocol.base import ConnectionFigures, Statistics


def total(parts: Sequence[Statistics]) -> Statistics:
    """The sums of several actors, under their name without its number. One alone stays as it is."""
    if len(parts) == 1:
        return parts[0]
    return Statistics(
        # Agents live in processes whose names say nothing about them.
        actor=parts[0].agent or re.sub(r"-\d+$", "", parts[0].actor),
        agent=parts[0].agent,
        pid=0,
        counts=_sum(part.counts for part in parts),
        agents=[agent for part in parts for agent in part.agents],
        activations=_sum(part.activations for part in parts),
        parts=parts,
        spare_pids=tuple(pid for part in parts for pid in part.spare_pids),
        standby_pids=tuple(pid for part in parts for pid in part.standby_pids),
        host_limit=parts[0].host_limit,
        tallies=tuple(sums([part.tallies for part in parts])),
    )


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of figures by name."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(found)


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
    return {agent: total(parts) for agent, parts in found.items()}
