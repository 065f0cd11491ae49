"""How agents share processes: which replica serves a session, who makes room for whom, how many processes wait ready.

- A session sticks to one replica of an agent: the same in every process and after every restart, and independent of which
  Runner has the session.
- When there may be no more processes, an agent moves into the one that is used least: where the fewest agents are in use, and
  of those the one that was used longest ago. If nobody is in use there, it is a passivation; else the process is shared, so
  that nobody ever waits for a process.
- Ready processes are kept for agents that have none, as far as there is room for those, and at least one, which takes the
  place of a process that is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.messages.session import SessionKey
from actors.rules.capacity.sharding import shard_of

LEAST_HOSTS = 16
HOST_BYTES = 150 * 1024 * 1024
"""What a process with an agent in it takes, the client of its model included, and somewhat more."""


class Load(NamedTuple):
    """How a process is used: agents in it of which a run is under way, or is about to begin, and when one was last used."""

    in_use: int
    used_s: float


def replica_of(key: SessionKey, replicas: int) -> int:
    """The number of the replica that serves a session, below `replicas`."""
    if replicas == 1:
        return 0
    # Without a word of its own in the key, all sessions of one Runner would have the same replica where both numbers are equal.
    return shard_of(SessionKey(f"replica\0{key.app}", key.user, key.session), replicas)


def least_used(loads: Sequence[Load]) -> int:
    """The place in the list of the process into which an agent moves that may have none of its own."""
    return min(range(len(loads)), key=lambda place: loads[place])


def spares_wanted(most: int, *, without: int, room: int) -> int:
    """How many processes are to stand ready.

    Args:
        most: as the deployment says.
        without: agents that have no process.
        room: how many more processes with agents there may be.
    """
    return min(most, max(1, min(without, room)))


def default_hosts(memory_bytes: float) -> int:
    """How many processes with agents there may be where nobody has said it: half of the memory is for them."""
    return max(LEAST_HOSTS, int(memory_bytes / 2) // HOST_BYTES)
