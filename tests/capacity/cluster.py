"""A cluster on paper: its nodes, the processes on them, and its databases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from actors.rules.queues import least_opened
from runtime.transport.protocol.frames import GATHERED_BYTES
from tests.capacity.gates import TurnGate
from tests.capacity.queues import CommitLog, Cores, Gate, Process, Script, SimulatedTime, Step
from tests.capacity.unit_costs import AGENT, DATABASE, LOG_PAGES, RUNNER, SESSION, STORE, WEB, UnitCosts, event_s, messages_s

ROUND_TRIPS = 1
"""Of a transaction, between a Session actor and PostgreSQL."""

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
        others: cores of each node that other programs have.
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
    others: float = 0.0

    def __post_init__(self) -> None:
        for name in ("nodes", "cores", "webs", "runners", "shards", "agents", "database_cores"):
            if getattr(self, name) < 1:
                raise ClusterError(f"{name} is {getattr(self, name)}, and there is at least one")
        if not self.others < self.cores:
            raise ClusterError(f"others have {self.others:g} cores, and a node has {self.cores}")
        for name in ("databases", "network_ms", "flush_ms", "others"):
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
        """By part, how many there are. The threads that write to the store are in the Session actors."""
        counts = {WEB: self.webs, RUNNER: self.runners, SESSION: self.shards, AGENT: self.agents}
        return counts | ({DATABASE: self.databases} if self.on_postgres else {})


class Hosting(msgspec.Struct, frozen=True):
    """The process of a part, and its node.

    Attributes:
        process: with its queue.
        node: its number; a database has one of its own.
        messages_s: CPU of each message of a plain turn.
        event_s: CPU of a message of a further event.
    """

    process: Process
    node: int
    messages_s: Mapping[str, float]
    event_s: float

    @property
    def write_s(self) -> float:
        """CPU of something that is written, on average."""
        return sum(self.messages_s.values()) / len(self.messages_s)


class SqliteTransactions:
    """Transactions of a store thread. The one by which the write-ahead log is full writes its pages into the database as well.

    Attributes:
        checkpoints: transactions that did so.
    """

    def __init__(self, time: SimulatedTime, costs: UnitCosts, store: Hosting) -> None:
        self.checkpoints = 0
        self._time = time
        self._costs = costs
        self._store = store
        self._pages = 0.0

    def transaction(self, writes: int) -> Script:
        """The steps of a transaction, from the event loop's thread to the store's and back."""
        commits, wake = self._costs.commits, self._time.pause(self._costs.hop_ms / 1_000)
        yield wake
        yield self._store.process.take(writes * self._store.write_s)
        yield self._time.pause(commits.flush_s(writes))
        self._pages += commits.log_pages(writes)
        if self._pages >= LOG_PAGES:
            self._pages = 0.0
            self.checkpoints += 1
            yield self._store.process.call_out(commits.checkpoint_cpu_ms / 1_000)
            yield self._time.pause(commits.checkpoint_flush_ms / 1_000)
        yield wake


class Deployed:
    """All processes of a cluster, each on its node: the busiest are placed first, each where the least is to do.

    Attributes:
        webs, runners, sessions, agents: the processes.
        logs: of the Session actors, in their order.
        gates: of the Runners, in their order.
        nodes: the cores of each.
        databases: the cores of each.
    """

    def __init__(self, time: SimulatedTime, costs: UnitCosts, cluster: Cluster, chance: Random) -> None:
        self._time = time
        self._chance = chance
        self._costs = costs
        self._cluster = cluster
        left = cluster.cores - cluster.others
        # What other programs leave of a core is a slower one.
        self.nodes = [Cores(time, math.ceil(left), left / math.ceil(left), self._takeover_s) for _ in range(cluster.nodes)]
        self.databases = [Cores(time, cluster.database_cores) for _ in range(cluster.databases)]
        self._expected = [0.0] * cluster.nodes
        placed = {part: self._placed(part) for part in sorted((SESSION, RUNNER, AGENT, WEB), key=self._expected_ms, reverse=True)}
        self.webs, self.runners, self.sessions, self.agents = (placed[part] for part in (WEB, RUNNER, SESSION, AGENT))
        self.stores = [self._hosting(STORE, each.process.cores, each.node, each.process.interpreter) for each in self.sessions]
        self.logs = [self._log(number) for number in range(cluster.shards)]
        at_once = least_opened(cluster.shards, cluster.runners)
        self.gates = [TurnGate(time, at_once) for _ in self.runners]

    def hop(self, origin: Hosting, target: Hosting) -> Step:
        """A message's way."""
        is_near = origin.node == target.node
        return self._time.pause((self._costs.hop_ms if is_near else self._cluster.network_ms) / 1_000)

    def processes(self) -> Mapping[str, Sequence[Process]]:
        """All of the nodes, by part; those of the databases left out."""
        parts = (WEB, self.webs), (RUNNER, self.runners), (SESSION, self.sessions), (STORE, self.stores), (AGENT, self.agents)
        return {part: [each.process for each in hostings] for part, hostings in parts}

    def _expected_ms(self, part: str) -> float:
        """CPU that a turn of the cluster has in one process of the part."""
        cluster = self._cluster
        cost = self._costs.of(part, on_postgres=cluster.on_postgres, shards=cluster.shards)
        return cost.turn_ms / cluster.counts[part]

    def _placed(self, part: str) -> list[Hosting]:
        made = []
        for _ in range(self._cluster.counts[part]):
            node = self._expected.index(min(self._expected))
            self._expected[node] += self._expected_ms(part)
            made.append(self._hosting(part, self.nodes[node], node))
        return made

    def _hosting(self, part: str, cores: Cores, node: int, interpreter: Gate | None = None) -> Hosting:
        cost = self._costs.of(part, on_postgres=self._cluster.on_postgres, shards=self._cluster.shards)
        pass_s = cost.pass_ms / 1_000
        process = Process(self._time, cores, part, pass_s=pass_s, at_once=AT_ONCE, vary=self._varied, interpreter=interpreter)
        return Hosting(process, node, messages_s(part, cost), event_s(part, cost))

    def _varied(self, mean_s: float) -> float:
        return mean_s * self._chance.choice(self._costs.commits.spread)

    def _takeover_s(self) -> float:
        return self._chance.choice(self._costs.takeovers_ms) / 1_000

    def _log(self, shard: int) -> CommitLog:
        store = self.stores[shard]
        if not self._cluster.on_postgres:
            return CommitLog(self._time, SqliteTransactions(self._time, self._costs, store).transaction)
        number = shard % len(self.databases)
        # A backend of PostgreSQL serves one connection.
        backend = self._hosting(DATABASE, self.databases[number], -1 - number)

        wake = self._time.pause(self._costs.hop_ms / 1_000)

        def transaction(writes: int) -> Script:
            yield wake
            yield store.process.take(writes * store.write_s)
            yield self._time.pause(ROUND_TRIPS * 2 * self._cluster.network_ms / 1_000)
            yield backend.process.take(writes * backend.write_s)
            yield self._time.pause(self._cluster.flush_ms / 1_000)
            yield wake

        return CommitLog(self._time, transaction)
