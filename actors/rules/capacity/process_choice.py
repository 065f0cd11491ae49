"""How agents share processes: which replica serves a session, which process is shared, how many spare processes are kept.

- A session always goes to the same replica of an agent: in every process, after every restart, and with every Runner.
- When no more processes may be started, an agent moves into the least used one: the one with the fewest agents in use, and of
  those the one that was used longest ago. If no agent there is in use, they are passivated; otherwise the process is shared, so
  no agent ever waits for a process.
- Spare processes are kept for agents without a process, as far as there is room for them, and at least one, which replaces a
  process that is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.messages.session import SessionKey
from actors.rules.capacity.sharding import shard_of

LEAST_HOSTS = 16
"""Processes with agents that are always allowed, however little memory there is."""

HOST_BYTES = 150 * 1024 * 1024
"""Memory of a process with an agent in it, the client of its model included, rounded up."""


class Load(NamedTuple):
    """How much a process is used: number of its agents with a run under way or about to begin; time of the last use."""

    in_use: int
    used_s: float


def replica_of(key: SessionKey, replicas: int) -> int:
    """The number of the replica that serves a session, from 0 and below `replicas`."""
    if replicas == 1:
        return 0
    # Without a word of its own in the key, all sessions of one Runner would have the same replica where both numbers are equal.
    return shard_of(SessionKey(f"replica\0{key.app}", key.user, key.session), replicas)


def least_used(loads: Sequence[Load]) -> int:
    """The index of the process that an agent moves into when it cannot have one of its own."""
    return min(range(len(loads)), key=lambda index: loads[index])


def spares_wanted(max_spares: int, *, without: int, room: int) -> int:
    """How many spare processes to keep.

    Args:
        max_spares: the deployment's setting.
        without: number of agents that have no process.
        room: number of processes with agents that may still be started.
    """
    return min(max_spares, max(1, min(without, room)))


def default_hosts(memory_bytes: float) -> int:
    """How many processes with agents a deployment may have by default: as many as fit into half of the memory."""
    return max(LEAST_HOSTS, int(memory_bytes / 2) // HOST_BYTES)
