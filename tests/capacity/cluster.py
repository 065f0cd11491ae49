"""A cluster on paper: its nodes, the processes on them, and its databases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from runtime.transport.protocol.frames import GATHERED_BYTES
from tests.capacity.queues import CommitLog, Cores, Process, Script, SimulatedTime, Step
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, UnitCosts

MESSAGE_BYTES = 420
"""Of a message of a plain turn between a Runner, a Session actor and an agent, on average."""
AT_ONCE = GATHERED_BYTES // MESSAGE_BYTES
"""Messages of a pass, at most. A process reads more at once, but what it sends leaves before when this much has gathered."""


class ClusterError(ValueError):
    """A cluster that cannot be. Arguments: what is wrong, and what would be right."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster.

    Attributes:
        nodes: with `cores` each, on which all processes are but the databases.
        webs: programs that ask for turns.
        runners, shards, agents: Runners, Session actors, and processes of agents.
        databases: PostgreSQL servers, each with a machine of `database_cores` of its own; 0: SQLite.
        network_ms: a message's way from node to node.
        flush_ms: how long a database waits for its disk in a transaction.
    """

    nodes: int = 1
    cores: int = 8
    webs: int = 1
    runners: int = 1
    shards: int = 1
    agents: int = 1
    databases: int = 1
    database_cores: int = 8
    network_ms: float = 0.1
    flush_ms: float = 1.0

    def __post_init__(self) -> None:
        for name in ("nodes", "cores", "webs", "runners", "shards", "agents", "database_cores"):
            if getattr(self, name) < 1:
                raise ClusterError(f"{name} is {getattr(self, name)}, and there is at least one")
        for name in ("databases", "network_ms", "flush_ms"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ClusterError(f"{name} is {getattr(self, name):g}, and cannot be less than 0")
        if self.databases == 0 and (self.shards > 1 or self.nodes > 1):
            raise ClusterError(
                f"{self.shards} Session actors on {self.nodes} nodes have no database: SQLite takes one Session actor on one "
                "node; give at least one database"
            )
        if self.databases > self.shards:
            raise ClusterError(f"{self.databases} databases are more than the {self.shards} Session actors that would use them")

    @property
    def on_postgres(self) -> bool:
        """True when sessions are in PostgreSQL."""
        return self.databases > 0

    @property
    def counts(self) -> Mapping[str, int]:
        """By part, how many there are."""
        counts = {WEB: self.webs, RUNNER: self.runners, SESSION: self.shards, AGENT: self.agents}
        return counts | ({DATABASE: self.databases} if self.on_postgres else {})


class Hosting(msgspec.Struct, frozen=True):
    """A process of a part, and its node.

    Attributes:
        process: with its queue.
        node: its number; a database has one of its own.
        message: a step: it takes a message of a plain turn.
        event: a step: it takes a message of a further event.
        write_s: CPU of something that is written.
    """

    process: Process
    node: int
    message: Step
    event: Step
    write_s: float


class Deployed:
    """All processes of a cluster, each on its node: the busiest are placed first, each where the least is to do.

    Attributes:
        parts: the processes, by part; those of databases left out.
        logs: of the Session actors, in their order.
        nodes: the cores of each.
        databases: the cores of each.
    """

    def __init__(self, time: SimulatedTime, costs: UnitCosts, cluster: Cluster, chance: Random) -> None:
        self._time = time
        self._chance = chance
        self._costs = costs
        self._cluster = cluster
        self.nodes = [Cores(time, cluster.cores) for _ in range(cluster.nodes)]
        self.databases = [Cores(time, cluster.database_cores) for _ in range(cluster.databases)]
        expected_ms = {part: self._cost_of_each(part) for part in (WEB, RUNNER, SESSION, AGENT)}
        self._placed_ms = [0.0] * cluster.nodes
        by_work = sorted(expected_ms, key=lambda part: expected_ms[part], reverse=True)
        self.parts = {part: [self._place(part, expected_ms[part]) for _ in range(cluster.counts[part])] for part in by_work}
        self.logs = [self._log(number, shard) for number, shard in enumerate(self.parts[SESSION])]

    def hop(self, origin: Hosting, target: Hosting) -> Step:
        """A message's way."""
        is_near = origin.node == target.node
        return self._time.pause((self._costs.hop_ms if is_near else self._cluster.network_ms) / 1_000)

    def used_s(self) -> Mapping[str, Sequence[float]]:
        """Seconds of CPU so far, by part, of each process or database."""
        used_s = {part: [each.process.used_s for each in those] for part, those in self.parts.items()}
        return used_s | {DATABASE: [each.used_s for each in self.databases]}

    def _cost_of_each(self, part: str) -> float:
        """CPU that a turn of the cluster has in one process of the part."""
        cluster = self._cluster
        return self._costs.of(part, on_postgres=cluster.on_postgres, shards=cluster.shards).turn_ms / cluster.counts[part]

    def _place(self, part: str, expected_ms: float) -> Hosting:
        node = self._placed_ms.index(min(self._placed_ms))
        self._placed_ms[node] += expected_ms
        return self._hosting(part, self.nodes[node], node)

    def _hosting(self, part: str, cores: Cores, node: int) -> Hosting:
        cost = self._costs.of(part, on_postgres=self._cluster.on_postgres, shards=self._cluster.shards)
        process = Process(self._time, cores, pass_s=cost.pass_ms / 1_000, at_once=AT_ONCE, vary=self._varied)
        message_s = cost.message_s(part)
        return Hosting(process, node, process.take(message_s), process.take(cost.event_s(part)), message_s)

    def _varied(self, mean_s: float) -> float:
        """Equal pieces of work take at least half of their mean."""
        return mean_s * (0.5 + self._chance.expovariate(2.0))

    def _log(self, number: int, shard: Hosting) -> CommitLog:
        if not self._cluster.on_postgres:
            return CommitLog(self._time, lambda writes: iter([shard.process.take(writes * shard.write_s)]))
        database = number % len(self.databases)
        # A backend of PostgreSQL serves one connection.
        backend = self._hosting(DATABASE, self.databases[database], -1 - database)

        def transaction(writes: int) -> Script:
            yield shard.process.take(writes * shard.write_s)
            yield self._time.pause(self._cluster.network_ms / 1_000)
            yield backend.process.take(writes * backend.write_s)
            yield self._time.pause((self._cluster.flush_ms + self._cluster.network_ms) / 1_000)

        return CommitLog(self._time, transaction)
