"""A load on a cluster, played: rates, latencies, and how busy each part is."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from statistics import mean
from typing import NamedTuple

import msgspec

from tests.benchmarks.figures import percentile
from tests.capacity.cluster import Cluster, ClusterError, Deployed, Hosting
from tests.capacity.queues import Script, SimulatedTime, Step, Then, play
from tests.capacity.unit_costs import AGENT, DATABASE, RUNNER, SESSION, WEB, MeasuredLoad, UnitCosts

NODES = "nodes"
"""The cores of all nodes, as a part."""

MOST_TURNS = 2_000_000
"""Turns of one simulation, at most: they take some minutes."""

_CROWD = 256
"""Sessions for each process of a part: so many keep it busy."""
_WARM = 0.25
"""So many turns more are played at the beginning, and not counted."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn does.

    Attributes:
        model_s: how long the model takes for each call.
        call_ms: CPU of each call in the agent's process, by the SDK of its service; 0 for a model that is asked without one.
        tool_calls: one after the other; each makes two further events and one more call of the model.
        tool_s: how long each takes.
    """

    model_s: float = 0.0
    call_ms: float = 0.0
    tool_calls: int = 0
    tool_s: float = 0.0

    @property
    def waits_s(self) -> float:
        """The time that a turn takes with nothing but its model and its tools."""
        return self.model_s * (self.tool_calls + 1) + self.tool_s * self.tool_calls

    @property
    def calls_ms(self) -> float:
        """CPU of all calls of models."""
        return self.call_ms * (self.tool_calls + 1)

    @property
    def further_events(self) -> int:
        """Events beside the user's and the answer."""
        return 2 * self.tool_calls


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a cluster.

    Attributes:
        sessions: that ask. One turn of a session runs at a time; others wait in its line.
        rate: turns a second, at any times; None: every session asks again when it has its answer.
        turns: that are played, of all sessions together.
    """

    sessions: int
    rate: float | None = None
    turns: int = 5_000

    def __post_init__(self) -> None:
        if self.sessions < 1:
            raise ClusterError(f"sessions is {self.sessions}, and there is at least one")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ClusterError(f"the rate is {self.rate:g} turns a second, and has to be more than 0")
        if self.turns < 1:
            raise ClusterError(f"turns is {self.turns}, and there is at least one")


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a part is.

    Attributes:
        number: of processes; of nodes or databases, the cores.
        mean: of their utilisation: seconds of CPU in a second.
        bears: turns a second that all of them bear, if a turn costs what it does where many come at once.
    """

    number: float
    mean: float
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


def simulate(costs: UnitCosts, cluster: Cluster, load: Load, conversation: Conversation | None = None, seed: int = 0) -> Outcome:
    """Play a load on a cluster. The same arguments have the same outcome.

    Raises:
        ClusterError: there are more turns to play than can be waited for.
    """
    conversation = conversation or Conversation()
    turns = max(load.sessions, load.turns) if load.rate is None else _warm(load, conversation) + load.turns
    if turns > MOST_TURNS:
        raise ClusterError(
            f"{turns:,} turns would have to be played, and {MOST_TURNS:,} can be: "
            "give fewer turns, a lower rate, a shorter time of the model, or fewer sessions of a closed loop"
        )
    return _Play(costs, cluster, load, conversation, Random(seed)).run()


def played(costs: UnitCosts, load: MeasuredLoad) -> Outcome:
    """The same load on the same machine, simulated."""
    return simulate(costs, Cluster(cores=costs.cores, databases=0), Load(sessions=load.sessions, turns=load.turns))


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
    """CPU of a turn in a part, in milliseconds, where many come at once."""
    cost = costs.of(part, on_postgres=cluster.on_postgres, shards=cluster.shards)
    calls_ms = conversation.calls_ms if part == AGENT else 0.0
    return calls_ms + cost.turn_ms + cost.event_ms * conversation.further_events


def _warm(load: Load, conversation: Conversation) -> int:
    """How many turns begin before a cluster is as busy as a rate makes it. They are not counted."""
    return round(_WARM * load.turns + (load.rate or 0.0) * conversation.waits_s)


class _Mark(NamedTuple):
    """What had happened at some time: turns that had ended, the sum of the times of all turns, and what processes had done."""

    at_s: float
    ended: int
    turns_s: float
    used_s: Mapping[str, Sequence[float]]
    passes: Mapping[str, int]
    commits: int


class _Play:
    """One simulation under way."""

    def __init__(self, costs: UnitCosts, cluster: Cluster, load: Load, conversation: Conversation, chance: Random) -> None:
        self._bears = bears(costs, cluster, conversation)
        self._load = load
        self._conversation = conversation
        self._chance = chance
        self._time = SimulatedTime()
        self._deployed = Deployed(self._time, costs, cluster, chance)
        self._lines: dict[int, deque[Then]] = {}
        self._latencies_ms: list[float] = []
        self._marks: list[_Mark] = []
        self._ended = 0
        # Turns under way, since when, and the sum of the times of all turns until then.
        self._under_way, self._since_s, self._turns_s = 0, 0.0, 0.0

    def run(self) -> Outcome:
        if self._load.rate is None:
            self._mark()
            share = max(1, self._load.turns // self._load.sessions)
            for session in range(self._load.sessions):
                self._ask_again(session, share)
            self._time.run()
            self._mark()
        else:
            self._arrive(self._load.rate, 0)
            self._time.run()
        return self._outcome(*self._marks)

    def _ask_again(self, session: int, left: int) -> None:
        """Ask for a turn, and for the next one when it has ended."""
        if left:
            self._begin(session, is_counted=True, then=partial(self._ask_again, session, left - 1))

    def _arrive(self, rate: float, number: int) -> None:
        """Ask for a turn of any session, and for the next one after some time."""
        warm = _warm(self._load, self._conversation)
        if number in (warm, warm + self._load.turns):
            self._mark()
        if number < warm + self._load.turns:
            self._begin(self._chance.randrange(self._load.sessions), is_counted=number >= warm)
            self._time.call_in(self._chance.expovariate(rate), partial(self._arrive, rate, number + 1))

    def _begin(self, session: int, *, is_counted: bool, then: Then = lambda: None) -> None:
        """Begin a turn, once those of its session have ended that were asked for before."""
        self._note(1)
        asked_s = self._time.now_s

        def end() -> None:
            self._note(-1)
            self._ended += 1
            if is_counted:
                self._latencies_ms.append((self._time.now_s - asked_s) * 1_000)
            if line := self._lines[session]:
                line.popleft()()
            else:
                del self._lines[session]
            then()

        begin = partial(play, self._turn(session), end)
        if session in self._lines:
            self._lines[session].append(begin)
        else:
            self._lines[session] = deque()
            begin()

    def _turn(self, session: int) -> Script:
        """One turn of a session, as docs/architecture.md tells it, until the program that asked has the answer."""
        parts, hop = self._deployed.parts, self._deployed.hop
        web, runner, shard, agent = (parts[part][session % len(parts[part])] for part in (WEB, RUNNER, SESSION, AGENT))
        write = self._deployed.logs[session % len(parts[SESSION])].write
        yield web.message
        for before, each in ((web, runner), (runner, shard)):
            yield hop(before, each)
            yield each.message
        # The user's message is stored while the agent begins. The program does not wait for the reply.
        play(iter([write, shard.message, hop(shard, runner), runner.message, hop(runner, web), web.message]))
        for before, each in ((shard, runner), (runner, agent)):
            yield hop(before, each)
            yield each.message
        for number in range(self._conversation.further_events):
            yield from self._further_event(web, agent, shard, write, is_of_model=number % 2 == 0)
        yield from self._model_call(agent)
        if self._conversation.model_s:
            # The message with which it began, in a pass of its own.
            yield agent.process.take(0.0)
        yield hop(agent, shard)
        yield shard.message
        yield write
        yield shard.message
        # The agent is told that its event is stored, and tells the Runner how the run ended.
        play(iter([hop(shard, agent), agent.message, hop(agent, runner), runner.message]))
        yield hop(shard, web)
        yield web.message

    def _further_event(self, web: Hosting, agent: Hosting, shard: Hosting, write: Step, *, is_of_model: bool) -> Script:
        """A call of a tool, or its response. The agent goes on when it is stored."""
        hop = self._deployed.hop
        if is_of_model:
            yield from self._model_call(agent)
        elif self._conversation.tool_s:
            yield self._time.pause(self._conversation.tool_s)
        yield agent.event
        yield hop(agent, shard)
        yield shard.event
        yield write
        yield shard.event
        play(iter([hop(shard, web), web.event]))
        yield hop(shard, agent)
        yield agent.event

    def _model_call(self, agent: Hosting) -> Script:
        """An SDK has a request made and sent. What it takes to read the answer is in the same pass here."""
        if self._conversation.call_ms:
            yield agent.process.take(self._conversation.call_ms / 1_000)
        if self._conversation.model_s:
            yield self._time.pause(self._conversation.model_s)

    def _note(self, more: int) -> None:
        self._turns_s += self._under_way * (self._time.now_s - self._since_s)
        self._since_s = self._time.now_s
        self._under_way += more

    def _mark(self) -> None:
        self._note(0)
        used_s = {**self._deployed.used_s(), NODES: [each.used_s for each in self._deployed.nodes]}
        passes = {part: sum(each.process.passes for each in those) for part, those in self._deployed.parts.items()}
        commits = sum(log.commits for log in self._deployed.logs)
        self._marks.append(_Mark(self._time.now_s, self._ended, self._turns_s, used_s, passes, commits))

    def _outcome(self, begin: _Mark, end: _Mark) -> Outcome:
        took_s, turns = end.at_s - begin.at_s, max(1, end.ended - begin.ended)
        p50_ms, p95_ms, p99_ms = (percentile(self._latencies_ms, share) for share in (50, 95, 99))
        return Outcome(
            rate=(end.ended - begin.ended) / took_s,
            p50_ms=p50_ms,
            p95_ms=p95_ms,
            p99_ms=p99_ms,
            at_once=(end.turns_s - begin.turns_s) / took_s,
            parts={part: self._busy(part, begin, end) for part in self._bears},
            commits=(end.commits - begin.commits) / turns,
            passes={part: passed / turns for part, passed in (Counter(end.passes) - Counter(begin.passes)).items()},
        )

    def _busy(self, part: str, begin: _Mark, end: _Mark) -> Busy:
        cores = {NODES: self._deployed.nodes, DATABASE: self._deployed.databases}.get(part)
        each = cores[0].number if cores else 1
        used = [after - before for before, after in zip(begin.used_s[part], end.used_s[part], strict=True)]
        return Busy(number=len(used) * each, mean=mean(used) / (end.at_s - begin.at_s) / each, bears=self._bears[part])
