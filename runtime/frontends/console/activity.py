"""What the actors of a deployment do: their figures at one moment, compared with those of an earlier one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from actors.messages.protocol.statistics import Statistics
from runtime.cluster.cluster_watch import cluster_use
from runtime.cluster.deployments import NamedActor, named_actors
from runtime.cluster.ray.nodes import this_address
from runtime.driver.runtime import Runtime
from runtime.engine.process.process_watch import memory_of
from runtime.frontends.console.output import duration

COLUMNS = ("ACTOR", "PID", "NODE", "RUNNING", "DONE", "/MIN", "CALLS", "CPU", "MEMORY", "RESTARTS")

UNITS = {"session": "events", "runner": "turns", "agent": "runs"}
"""What an actor of a kind does: its figure with this name is counted."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ActorRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An actor at one moment.

    Attributes:
        actor: the agent's name, or `session` and `runner`.
        kind: session, runner or agent.
        pid, node: where it is; "" where Ray does not tell the node.
        running: runs or turns under way; None for a Session actor.
        done: how many events, turns or runs since the actor was started.
        per_min: the same since the last look; None at the first one.
        llm_calls: calls of models; None for other actors than agents.
        cpu_percent: of one CPU, of its process since the last look; None at the first one, and on another machine.
        memory_bytes: of its process, which it may share with other agents; None on another machine.
        restarts: how often its process was lost, and it was started again: of an agent since its Runner was started.
    """

    actor: str
    kind: str
    pid: int
    node: str
    running: int | None
    done: int
    per_min: float | None
    llm_calls: int | None
    cpu_percent: float | None
    memory_bytes: int | None
    restarts: int

    def cells(self) -> tuple[str, ...]:
        """It as a row of a table."""
        memory = f"{self.memory_bytes / 2**20:.0f} MB" if self.memory_bytes is not None else "-"
        return (
            *(self.actor, str(self.pid), self.node or "-", _number(self.running), str(self.done)),
            *(_number(self.per_min), _number(self.llm_calls)),
            *(f"{self.cpu_percent:.0f} %" if self.cpu_percent is not None else "-", memory, str(self.restarts)),
        )


class Look(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A deployment at one moment.

    Attributes:
        time: seconds since the epoch.
        age_s: how long its first Session actor runs.
        running: turns under way.
        lost: processes that were lost: of agents since the Runners were started, and of the Session actors and Runners.
        tokens: that models were given and have answered, since the Session actors were started.
        budget_refusals: how often budgets have refused a call, since then.
        calls_waiting: calls of models that have no connection to their service yet.
        nodes, cpus: of the cluster, those with CPUs.
        claimed_cpus: how many of these are claimed, by whatever runs there.
        starting: its processes that start or wait for a node.
        draining: it takes no new turns, and is about to be stopped.
        actors: its actors: the Session actors and Runners, then agents, those that are busiest first.
    """

    name: str
    time: float
    age_s: float
    running: int
    lost: int
    tokens: int
    budget_refusals: int
    calls_waiting: int
    nodes: int
    cpus: float
    claimed_cpus: float
    starting: int
    draining: bool
    actors: Sequence[ActorRow]

    def summary(self) -> tuple[str, ...]:
        """It in a line."""
        agents = sum(row.kind == "agent" for row in self.actors)
        counts = f"live agents {agents}", f"running turns {self.running}", f"lost processes {self.lost}"
        refused = (f"refused by budgets {self.budget_refusals}",) if self.budget_refusals else ()
        waiting = (f"calls without a connection {self.calls_waiting}",) if self.calls_waiting else ()
        starting = (f"starting processes {self.starting}",) if self.starting else ()
        nodes = f"claimed {self.claimed_cpus:g} of {self.cpus:g} CPUs of {self.nodes} node{'s' * (self.nodes != 1)}"
        note = ("draining",) if self.draining else ()
        return (
            self.name,
            *counts,
            f"tokens {self.tokens:,}",
            *refused,
            *waiting,
            *starting,
            nodes,
            f"up {duration(self.age_s)}",
            *note,
        )


class DeploymentWatch:
    """Looks at a deployment again and again.

    Args:
        rt: has joined it.
    """

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._address = rt.address or ""
        self._node = this_address()
        self._done: Mapping[tuple[str, int], int] = {}
        self._cpu_s: Mapping[int, float] = {}
        self._looked_s = 0.0

    def look(self) -> Look:
        """The deployment now. Raises ClusterError, ActorLostError."""
        seen = self._rt.statistics()
        actors = {each.name: each for each in named_actors(self._address) if each.app == self._rt.app_name}
        now_s, since_s = time.time(), time.monotonic() - self._looked_s
        rows, done, cpu_s = [], {}, {}
        for kind, figures in _figures(seen.session, seen.runner):
            place = actors.get(figures.actor)
            used_s = _cpu_s(figures.pid) if place is not None and place.node == self._node else None
            row = self._row(kind, figures, place, since_s, used_s)
            done[row.actor, row.pid] = row.done
            if used_s is not None:
                cpu_s[row.pid] = used_s
            rows.append(row)
        self._done, self._cpu_s, self._looked_s = done, cpu_s, time.monotonic()
        core = [row for row in rows if row.kind != "agent"]
        agents = sorted(
            (row for row in rows if row.kind == "agent"), key=lambda row: (-(row.running or 0), -(row.per_min or 0), -row.done)
        )
        started_s = min((each.started_s for each in actors.values() if each.started_s is not None), default=now_s)
        running = seen.runner.counts["running"]
        return Look(
            name=self._rt.app_name,
            time=now_s,
            age_s=now_s - started_s,
            running=running,
            lost=seen.runner.counts.get("lost", 0) + sum(row.restarts for row in core),
            tokens=sum(seen.session.counts.get(name, 0) for name in ("input_tokens", "output_tokens", "reasoning_tokens")),
            budget_refusals=seen.session.counts.get("budget_refusals", 0),
            calls_waiting=sum({each.pid: each.counts.get("calls_waiting", 0) for each in seen.runner.agents}.values()),
            **cluster_use()._asdict(),
            starting=seen.runner.counts.get("starting", 0),
            draining=seen.runner.counts["draining"] > 0,
            actors=[*core, *agents],
        )

    def _row(self, kind: str, figures: Statistics, place: NamedActor | None, since_s: float, cpu_s: float | None) -> ActorRow:
        name = figures.agent or figures.actor.partition("/")[2]
        cpu_before_s = self._cpu_s.get(figures.pid)
        done = figures.counts.get(UNITS[kind], 0)
        before = self._done.get((name, figures.pid))
        return ActorRow(
            actor=name,
            kind=kind,
            pid=figures.pid,
            node=place.node if place is not None else "",
            running=figures.counts.get("running"),
            done=done,
            per_min=max(0, done - (before or 0)) / since_s * 60 if self._looked_s else None,
            llm_calls=figures.counts.get("llm_calls"),
            cpu_percent=None if cpu_s is None or cpu_before_s is None else (cpu_s - cpu_before_s) / since_s * 100,
            memory_bytes=memory_of(figures.pid) if place is not None and place.node == self._node else None,
            restarts=figures.counts.get("restarts", place.restarts if place is not None else 0),
        )


def _figures(session: Statistics, runner: Statistics) -> Iterator[tuple[str, Statistics]]:
    for kind, sums in (("session", session), ("runner", runner)):
        for each in sums.parts or (sums,):
            yield kind, each
    for agent in runner.agents:
        yield "agent", agent


def _cpu_s(pid: int) -> float | None:
    """Seconds of CPU that a process of this machine has used."""
    try:
        # The name before it may have blanks and brackets.
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except (OSError, ValueError):
        return None
    return (int(user) + int(system)) / TICKS_PER_S


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
