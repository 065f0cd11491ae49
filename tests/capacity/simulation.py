"""A load on a cluster, played: rates, latencies, and how busy each part is."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from statistics import mean

import msgspec

from tests.benchmarks.figures import percentile
from tests.capacity.cluster import Cluster, ClusterError, Deployed
from tests.capacity.queues import SimulatedTime, Then, play
from tests.capacity.turn import Conversation, TurnPlayer
from tests.capacity.unit_costs import AGENT, DATABASE, SESSION, STORE, MeasuredLoad, UnitCosts

NODES = "nodes"
"""The cores of all nodes, as a part."""

MOST_TURNS = 2_000_000
"""Turns of one simulation, at most: they take some minutes."""

_CROWD = 256
"""Sessions for each process of a part: so many keep it busy."""
_WARM = 0.25
"""So many turns more are played at the beginning, and not counted."""


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a part is.

    Attributes:
        number: of processes; of nodes or databases, the cores.
        mean: of their utilisation: seconds of CPU in a second.
        highest: the utilisation of the busiest of them.
        bears: turns a second that all of them bear, if a turn costs what it does where many come at once.
    """

    number: float
    mean: float
    highest: float
    bears: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a simulation.

    Attributes:
        rate: turns that end in a second.
        p50_ms, p95_ms, p99_ms: latency of a turn, time of its model and tools included.
        at_once: turns under way, on average.
        parts: by name.
        commits: transactions of a turn.
        passes: of event loops, by part, of a turn.
    """

    rate: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    at_once: float
    parts: Mapping[str, Busy]
    commits: float
    passes: Mapping[str, float]

    @property
    def bottleneck(self) -> str:
        """The part that bears least."""
        return min(self.parts, key=lambda part: self.parts[part].bears)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a cluster.

    Attributes:
        sessions: that ask. One turn of a session runs at a time; others wait in its line.
        rate: turns a second, at any times; None: every session asks again when it has its answer.
        turns: that are played, of all sessions together.
        users: that have these sessions; None: each has one.
    """

    sessions: int
    rate: float | None = None
    turns: int = 5_000
    users: int | None = None

    def __post_init__(self) -> None:
        if self.sessions < 1:
            raise ClusterError(f"sessions is {self.sessions}, and there is at least one")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise ClusterError(f"the rate is {self.rate:g} turns a second, and has to be more than 0")
        if self.turns < 1:
            raise ClusterError(f"turns is {self.turns}, and there is at least one")
        if self.users is not None and self.users < 1:
            raise ClusterError(f"users is {self.users}, and there is at least one")


def simulate(costs: UnitCosts, cluster: Cluster, load: Load, conversation: Conversation | None = None, seed: int = 0) -> Outcome:
    """Play a load on a cluster. The same arguments have the same outcome.

    Raises:
        ClusterError: there are more turns to play than can be waited for.
    """
    turns = max(load.sessions, load.turns) if load.rate is None else _warm(load, conversation or Conversation()) + load.turns
    if turns > MOST_TURNS:
        raise ClusterError(
            f"{turns:,} turns would have to be played, and {MOST_TURNS:,} can be: "
            "give fewer turns, a lower rate, a shorter time of the model, or fewer sessions of a closed loop"
        )
    return _Play(costs, cluster, load, conversation or Conversation(), Random(seed)).run()


def played(costs: UnitCosts, load: MeasuredLoad, seed: int = 0) -> Outcome:
    """The same load of one user on the same machine, simulated. What other programs had of it they have there as well."""
    cluster = Cluster(cores=costs.cores, databases=0, others=round(load.others, 2))
    return simulate(costs, cluster, Load(sessions=load.sessions, turns=load.turns, users=1), seed=seed)


def most(costs: UnitCosts, cluster: Cluster, conversation: Conversation | None = None, seed: int = 0) -> float:
    """The highest rate that a cluster bears, in turns a second: that of so many sessions that something is always busy.

    The model takes no time meanwhile; with it as many turns end in a second, and more are under way.
    """
    sessions = _CROWD * max(cluster.runners, cluster.shards, cluster.webs, cluster.agents)
    done = msgspec.structs.replace(conversation or Conversation(), model_s=0.0, tool_s=0.0)
    return simulate(costs, cluster, Load(sessions=sessions, turns=4 * sessions), done, seed).rate


def bears(costs: UnitCosts, cluster: Cluster, conversation: Conversation) -> dict[str, float]:
    """By part, the turns a second that it bears where many come at once."""
    each_ms = {part: turn_ms(costs, cluster, conversation, part) for part in cluster.counts}
    cores = dict(cluster.counts) | {NODES: cluster.nodes * cluster.cores, DATABASE: cluster.databases * cluster.database_cores}
    each_ms[NODES] = sum(spent for part, spent in each_ms.items() if part != DATABASE)
    return {part: cores[part] / spent * 1_000 if spent else math.inf for part, spent in each_ms.items()}


def turn_ms(costs: UnitCosts, cluster: Cluster, conversation: Conversation, part: str) -> float:
    """CPU of a turn in a part, in milliseconds, where many come at once. A Session actor's is that of both its threads."""
    named = (SESSION, STORE) if part == SESSION else (part,)
    found = (costs.of(name, on_postgres=cluster.on_postgres, shards=cluster.shards) for name in named)
    calls_ms = conversation.calls_ms if part == AGENT else 0.0
    return calls_ms + sum(cost.turn_ms + cost.event_ms * conversation.further_events for cost in found)


def _warm(load: Load, conversation: Conversation) -> int:
    """How many turns begin before a cluster is as busy as a rate makes it. They are not counted."""
    return round(_WARM * load.turns + (load.rate or 0.0) * conversation.waits_s)


class _Mark(msgspec.Struct, frozen=True):
    """What had happened at some time: turns that had ended, the sum of the times of all turns, CPU by process, and others."""

    at_s: float
    ended: int
    turns_s: float
    used_s: Mapping[str, Sequence[float]]
    commits: int
    passes: Mapping[str, int]


class _Play:
    """One simulation under way."""

    def __init__(self, costs: UnitCosts, cluster: Cluster, load: Load, conversation: Conversation, chance: Random) -> None:
        self._bears = bears(costs, cluster, conversation)
        self._load = load
        self._conversation = conversation
        self._chance = chance
        self._time = SimulatedTime()
        self._deployed = Deployed(self._time, costs, cluster, chance)
        self._player = TurnPlayer(self._time, self._deployed, conversation)
        self._lines: dict[int, deque[Then]] = {}
        self._latencies_ms: list[float] = []
        self._ended = 0
        # Turns under way, since when, and the sum of the times of all turns until then.
        self._under_way, self._since_s, self._turns_s = 0, 0.0, 0.0

    def run(self) -> Outcome:
        begin = self._mark()
        if self._load.rate is None:
            share = max(1, self._load.turns // self._load.sessions)
            for session in range(self._load.sessions):
                self._ask_again(session, share)
            self._time.run()
            return self._outcome(begin, self._mark())
        marks: list[_Mark] = []
        self._arrive(self._load.rate, count(), marks)
        self._time.run()
        return self._outcome(*marks)

    def _ask_again(self, session: int, left: int) -> None:
        """Ask for a turn, and for the next one when it has ended."""
        then = partial(self._ask_again, session, left - 1) if left > 1 else _nothing
        self._begin(session, is_counted=True, then=then)

    def _arrive(self, rate: float, numbers: Iterator[int], marks: list[_Mark]) -> None:
        """Ask for a turn of any session, and for the next one after some time."""
        warm = _warm(self._load, self._conversation)
        number = next(numbers)
        if number in (warm, warm + self._load.turns):
            marks.append(self._mark())
        if number == warm + self._load.turns:
            return
        self._begin(self._chance.randrange(self._load.sessions), is_counted=number >= warm, then=_nothing)
        self._time.call_in(self._chance.expovariate(rate), partial(self._arrive, rate, numbers, marks))

    def _begin(self, session: int, *, is_counted: bool, then: Then) -> None:
        """Begin a turn, once those of its session have ended that were asked for before."""
        self._note(1)
        asked_s = self._time.now_s

        def end() -> None:
            self._note(-1)
            self._ended += 1
            if is_counted:
                self._latencies_ms.append((self._time.now_s - asked_s) * 1_000)
            line = self._lines[session]
            if line:
                line.popleft()()
            else:
                del self._lines[session]
            then()

        begin = partial(play, self._player.turn(session, session % (self._load.users or self._load.sessions)), end)
        if session in self._lines:
            self._lines[session].append(begin)
        else:
            self._lines[session] = deque()
            begin()

    def _note(self, more: int) -> None:
        self._turns_s += self._under_way * (self._time.now_s - self._since_s)
        self._since_s = self._time.now_s
        self._under_way += more

    def _mark(self) -> _Mark:
        self._note(0)
        processes = self._deployed.processes()
        passes = {part: sum(process.passes for process in those) for part, those in processes.items()}
        used_s = {part: [process.used_s for process in those] for part, those in processes.items()}
        # Both are threads of one process.
        used_s[SESSION] = [loop_s + store_s for loop_s, store_s in zip(used_s[SESSION], used_s.pop(STORE), strict=True)]
        used_s[DATABASE] = [each.used_s for each in self._deployed.databases]
        used_s[NODES] = [each.used_s for each in self._deployed.nodes]
        commits = sum(log.commits for log in self._deployed.logs)
        return _Mark(self._time.now_s, self._ended, self._turns_s, used_s, commits, passes)

    def _outcome(self, begin: _Mark, end: _Mark) -> Outcome:
        took_s, turns = end.at_s - begin.at_s, max(1, end.ended - begin.ended)
        return Outcome(
            rate=(end.ended - begin.ended) / took_s,
            p50_ms=percentile(self._latencies_ms, 50),
            p95_ms=percentile(self._latencies_ms, 95),
            p99_ms=percentile(self._latencies_ms, 99),
            at_once=(end.turns_s - begin.turns_s) / took_s,
            parts={part: self._busy(part, begin, end) for part in self._bears},
            commits=(end.commits - begin.commits) / turns,
            passes={part: (passed - begin.passes[part]) / turns for part, passed in end.passes.items()},
        )

    def _busy(self, part: str, begin: _Mark, end: _Mark) -> Busy:
        cores = {NODES: self._deployed.nodes, DATABASE: self._deployed.databases}.get(part)
        each = cores[0].number if cores else 1.0
        used = [after - before for before, after in zip(begin.used_s[part], end.used_s[part], strict=True)]
        shares = [spent_s / (end.at_s - begin.at_s) / each for spent_s in used]
        return Busy(number=len(shares) * each, mean=mean(shares), highest=max(shares), bears=self._bears[part])


def _nothing() -> None:
    """Nothing comes after."""
