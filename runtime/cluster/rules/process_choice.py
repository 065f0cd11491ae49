"""How agents share processes: which replica serves a session, where an agent moves in, which agents have to leave.

- A session always goes to the same replica of an agent: in every process, after every restart, and with every Runner.
- While there are fewer processes than the limit, an agent gets one of its own, so a tree that fits has one for each agent.
- A tree that does not fit is spread evenly. Its agents do not wait for a process that starts: they move in beside others, up to
  an even share, while further processes start. Once there are as many as the limit, an agent moves into the least used one.
- Agents stay side by side: most of them wait for models, and one process bears hundreds. An agent leaves only after it was idle
  for long, or when its process has no room or is short of memory, those that were idle longest first; never while it is in use.
- Spare processes are kept for agents without a process, as far as there is room for them, and at least one, which replaces a
  process that is lost.

Where the number of an agent's replicas goes by load:

- There are as many as the runs under way need, between the placement's `replicas` and `max_replicas`.
- The number rises at once. It falls only when fewer were enough all the time for as long as an idle agent keeps its process, so
  that a load that comes and goes starts no processes.
- A session stays with its replica as long as the same ones serve. With one more, or one fewer, only sessions of that one move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.interfaces.transport import HostLimit
from runtime.settings import HOSTS_PER_CORE

LEAST_HOSTS = 8
"""Processes with agents that are always allowed, however few cores and however little memory there are."""

HOST_BYTES = 150 * 1024 * 1024
"""Memory of a process with an agent in it, the client of its model included, rounded up."""

AGENTS_PER_HOST = 256
"""Agents that live in one process, as long as any of them is idle."""


class Load(NamedTuple):
    """How much a process is used, so that the one to be preferred is the smallest.

    Attributes:
        has_sibling: another replica of the agent in question lives there.
        is_short: it uses more memory than its share.
        in_use: number of its agents with a run under way or about to begin.
        used_s: time of the last use.
    """

    has_sibling: bool = False
    is_short: bool = False
    in_use: int = 0
    agents: int = 0
    used_s: float = 0.0


def least_used(loads: Sequence[Load]) -> int:
    """The index of the process that an agent moves into when it cannot have one of its own."""
    return min(range(len(loads)), key=lambda index: loads[index])


def chosen(loads: Sequence[Load], *, limit: int, agents: int, is_ready: bool, may_join: bool) -> int | None:
    """Where an agent moves in.

    Args:
        loads: of the processes with agents.
        limit: how many of them there may be.
        agents: how many agents of the tree may live in any process.
        is_ready: a process without agents stands ready.
        may_join: others of these processes start by themselves, so the agent need not start one.

    Returns:
        The index of the process; None for one without agents.
    """
    if len(loads) >= limit:
        return least_used(loads)
    if is_ready or not may_join or agents <= limit:
        return None
    share = -(-agents // limit)
    even = [index for index, load in enumerate(loads) if load.agents < share and not (load.has_sibling or load.is_short)]
    return min(even, key=loads.__getitem__, default=None)


def leaving(idle_since_s: Sequence[float], *, living: int, is_short: bool) -> list[int]:
    """The idle agents of a process that leave when another agent moves in.

    Args:
        idle_since_s: when each idle agent was used for the last time.
        living: how many agents live there, those in use included.
        is_short: the process uses more memory than its share.

    Returns:
        Their indices: those above `AGENTS_PER_HOST`, and half of them when memory is short, the ones idle longest first.
    """
    number = max(living + 1 - AGENTS_PER_HOST, -(-len(idle_since_s) // 2) if is_short else 0)
    return sorted(range(len(idle_since_s)), key=lambda index: idle_since_s[index])[: max(0, number)]


def spares_wanted(max_spares: int, *, without: int, room: int) -> int:
    """The number of spare processes to keep.

    Args:
        max_spares: the deployment's setting.
        without: number of agents that have no process.
        room: number of processes with agents that may still be started.
    """
    return min(max_spares, max(1, min(without, room)))


def host_limit(given: int | None, memory_bytes: float, cores: float, runners: int) -> HostLimit:
    """The number of processes with agents that a Runner may have.

    Args:
        given: the deployment's setting; None: by cores and by memory.
        memory_bytes, cores: of all nodes of the cluster.
        runners: among how many Runners they are divided.
    """
    if given is not None:
        return HostLimit(given, "max_live_agents says so")
    by_cores = int(HOSTS_PER_CORE * cores) // runners
    by_memory = int(memory_bytes / 2) // HOST_BYTES // runners
    hosts = min(by_cores, by_memory)
    among = f", shared by {runners} Runners" if runners > 1 else ""
    if hosts <= LEAST_HOSTS:
        return HostLimit(LEAST_HOSTS, f"as many as there always may be, for {cores:g} cores and {_gib(memory_bytes)}{among}")
    if by_cores <= by_memory:
        return HostLimit(hosts, f"{HOSTS_PER_CORE} for each of {cores:g} cores{among}")
    return HostLimit(hosts, f"as many as fit into half of {_gib(memory_bytes)}{among}")


def memory_share(memory_bytes: float, hosts: int) -> int:
    """The bytes that one of so many processes may use before its idle agents leave: an even share of half of the memory."""
    return max(2 * HOST_BYTES, int(memory_bytes / 2) // hosts)


def _gib(memory_bytes: float) -> str:
    return f"{memory_bytes / 1024**3:.3g} GiB of memory"


class Scale(NamedTuple):
    """How many replicas an agent is to have, and when so many were needed for the last time."""

    replicas: int
    needed_s: float


class ScaleLimits(NamedTuple):
    """Between which numbers an agent's replicas are, how many runs one is for, and for how long they stay without need."""

    least: int
    most: int
    runs_per_replica: int
    idle_timeout_s: float


def scaled(scale: Scale, limits: ScaleLimits, *, runs: int, now_s: float) -> Scale:
    """The scale from now on.

    Args:
        scale: until now.
        runs: that all replicas have under way.
    """
    needed = min(max(-(-runs // limits.runs_per_replica), limits.least), limits.most)
    if needed < scale.replicas and now_s - scale.needed_s < limits.idle_timeout_s:
        return scale
    return Scale(needed, now_s)


def serving(scale: Scale, limits: ScaleLimits, living: Iterable[int]) -> tuple[int, ...]:
    """The numbers of the replicas that serve sessions: those that always do, and of the others those that live by now."""
    return tuple(sorted({*range(limits.least), *(number for number in living if number < scale.replicas)}))
