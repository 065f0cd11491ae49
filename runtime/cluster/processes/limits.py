"""How large a pool of processes may be, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

SPARE_DELAY_S = 0.1
"""Starting a process costs as much CPU as dozens of turns, so an agent that was just activated replies first."""


@dataclass(frozen=True)
class PoolLimits:
    """The limits of a pool.

    Attributes:
        max_processes: processes with agents; those started for a process group that asks for resources do not count.
        spares: processes to keep prepared.
        agents: agents that can live in any process.
        idle_timeout_s: an agent that was idle for this long is passivated.
        stop_timeout_s: how long an agent may take to stop when the pool closes.
        spare_delay_s: the pause between an activation and the start of a spare.
    """

    max_processes: int
    spares: int
    agents: int
    idle_timeout_s: float
    stop_timeout_s: float
    spare_delay_s: float = SPARE_DELAY_S
