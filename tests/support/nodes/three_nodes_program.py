"""A program: three nodes, several Session actors and Runners, and many sessions; under load a node comes and another one dies.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own. Arguments: a folder, the URL of the
session store, how many experts there are, how many sessions, and how many turns each has at least before, between and after the
changes of nodes.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from actors import LlmAgent, RunConfig
from actors.messages.event import USER
from actors.messages.protocol.statistics import Statistics
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.engine_client import Portal
from runtime.driver.services.deployment import RuntimeStatistics
from runtime.frontends.testing.leaks import processes
from runtime.settings import Settings
from tests.support.machine.processes import is_running
from tests.support.nodes.two_nodes_program import QUICK
from tests.support.polling import until
from tests.support.runtimes import Deploy

SHARDS, RUNNERS = 4, 2
PATIENCE_S = 100


def tree(experts: int) -> LlmAgent:
    """A desk that transfers each session to one of several experts, which keeps it."""
    names = [f"expert_{number}" for number in range(experts)]
    desk = PatternModel([(f"to {name} ", {"transfer": name}) for name in names])
    asked = [LlmAgent(name=name, model=PatternModel([], default=f"answered by {name}")) for name in names]
    return LlmAgent(name="desk", model=desk, sub_agents=asked)


class Load:
    """Sessions that talk all the time, each one turn after the other, on a thread of their own.

    Args:
        turns: how many each has before it is said that they go on.
    """

    def __init__(self, rt: Runtime, experts: int, sessions: int, turns: int) -> None:
        self._rt = rt
        self._experts = experts
        self._wanted = turns
        self._turns = Counter({f"s{number}": 0 for number in range(sessions)})
        self._is_over = False
        self._told = asyncio.Condition()
        self.said: dict[str, list[str]] = {session: [] for session in self._turns}
        self.wrong: list[str] = []
        self._portal = Portal("load")
        self._ended = threading.Event()
        self._all = self._portal.begin_call(self._talk_all(), lambda call: self._ended.set())

    async def _talk_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for session in self.said:
                group.create_task(self._talk(session))

    async def _talk(self, session: str) -> None:
        expert = self.expert(session)
        while not self._is_over:
            text = f"to {expert} no. {self._turns[session]}"
            self.said[session].append(text)
            patient = RunConfig(timeout=PATIENCE_S)
            turn = self._rt.run(user_id="ada", session_id=session, message=text, run_config=patient, state_delta={"user:n": 1})
            try:
                answer = (await turn).text
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            if answer != f"answered by {expert}":
                self.wrong.append(f"{session}: {text}: {answer}")
            async with self._told:
                self._turns[session] += 1
                self._told.notify_all()

    def expert(self, session: str) -> str:
        """The expert that answers in a session."""
        return f"expert_{int(session[1:]) % self._experts}"

    def goes_on(self) -> None:
        """Wait until each session has had its turns since now."""
        self._portal.run(self._has_gone_on())

    async def _has_gone_on(self) -> None:
        wanted = {session: had + self._wanted for session, had in self._turns.items()}
        async with self._told:
            await self._told.wait_for(lambda: all(self._turns[session] >= number for session, number in wanted.items()))

    def stop(self) -> None:
        """Let those that run end, and begin no more."""
        self._is_over = True
        self._ended.wait()
        self._all.result()
        self._portal.close()


def by_node(statistics: Iterable[Statistics], nodes: Sequence[Any]) -> list[int]:
    """How many of these actors live on each node. Ray starts their processes by that of the node."""
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    parent_pids = {process.pid: process.parent_pid for process in processes()}
    actors = Counter(parent_pids.get(each.pid) for each in statistics)
    return [actors[raylet] for raylet in raylets]


def all_actors(seen: RuntimeStatistics) -> list[Statistics]:
    """All actors."""
    return [*seen.session.parts, *seen.runner.parts, *seen.runner.agents]


def change_nodes(rt: Runtime, cluster: Cluster, nodes: list[Any], load: Load) -> None:
    """Have a node added and another one lost, while all sessions talk."""
    seen = rt.statistics()
    print("RESULT each Runner has its own actors of all agents", [len(each.parts) for each in seen.agents.values()])
    print("RESULT on each node are agents", all(by_node(seen.runner.agents, nodes)))
    print("RESULT on each node are Session actors", all(by_node(seen.session.parts, nodes)))
    print("RESULT Runners are on different nodes", sorted(by_node(seen.runner.parts, nodes)) == [0, 1, 1])
    print(f"actors on each node: {by_node(all_actors(seen), nodes)}", file=sys.stderr)
    nodes.append(cluster.add_node(num_cpus=1))
    load.goes_on()
    # Not the first, which is the cluster's head and the driver's own; and one that a Runner lives on.
    lost = max(nodes[1:3], key=lambda node: by_node(seen.runner.parts, [node]))
    doomed = [each.pid for each in all_actors(seen) if by_node([each], [lost]) == [1]]
    nodes.remove(lost)
    began_s = time.monotonic()
    cluster.remove_node(lost, allow_graceful=False)
    # Its actors notice that only a moment later, and still answer until then.
    until(lambda: not any(is_running(pid) for pid in doomed))
    print(f"its {len(doomed)} actors have ended after {time.monotonic() - began_s:.1f} s", file=sys.stderr)
    load.goes_on()
    print(f"all sessions have gone on {time.monotonic() - began_s:.1f} s after the loss", file=sys.stderr)


def report_placement(rt: Runtime, nodes: list[Any]) -> None:
    """Print on which nodes the actors live in the end."""
    seen = rt.statistics()
    now = by_node(all_actors(seen), nodes)
    print("RESULT all live on the nodes that are there", sum(now) == len(all_actors(seen)))
    print("RESULT the new node is used", now[-1] > 0)
    print(f"actors on each node: {now}", file=sys.stderr)


def log_flaws(rt: Runtime, load: Load) -> list[str]:
    """Defects of the logs."""
    found = []
    for session, said in load.said.items():
        log = rt.sessions.get("ada", session)
        events = log.events if log is not None else []
        if [event.seq for event in events] != list(range(1, len(events) + 1)) or len({each.id for each in events}) != len(events):
            found.append(f"{session}: a place is missing or taken twice")
        if [event.text for event in events if event.author == USER] != said:
            found.append(f"{session}: a message is missing or doubled")
        answers = [event.author for event in events if event.text.startswith("answered")]
        if answers != [load.expert(session)] * len(said):
            found.append(f"{session}: an answer is missing or doubled")
    return found


def main(folder: Path, store: str, experts: int, sessions: int, turns: int) -> None:
    settings = Settings(session_shards=SHARDS, runners=RUNNERS, log_to_driver=False)
    began_s = time.monotonic()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": QUICK})
    nodes = [cluster.head_node, *(cluster.add_node(num_cpus=1) for _ in range(2))]
    cluster.wait_for_nodes()
    deploy = Deploy("ray", folder)
    with deploy(tree(experts), app_name="nodes", address=cluster.address, session_store=store, settings=settings) as rt:
        print(f"ready after {time.monotonic() - began_s:.1f} s", file=sys.stderr)
        load = Load(rt, experts, sessions, turns)
        load.goes_on()
        change_nodes(rt, cluster, nodes, load)
        load.stop()
        report_placement(rt, nodes)
        print("RESULT wrong answers", load.wrong[:5])
        print("RESULT flaws of logs", log_flaws(rt, load)[:5])
        print("RESULT listed", len(rt.sessions.list()) == sessions)
        print(f"{sum(map(len, load.said.values()))} turns, {time.monotonic() - began_s:.1f} s in all", file=sys.stderr)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
