"""A program: three nodes, of which one is behind a firewall: its processes can be reached by Ray only.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ray.cluster_utils import Cluster

from actors import LlmAgent, ParallelAgent, Placement
from actors.messages.protocol.statistics import ConnectionFigures
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.services.deployment import RuntimeStatistics
from runtime.settings import Settings
from tests.support.runtimes import Deploy

NODES = ("open", "walled")
SESSIONS, TURNS = 20, 5
FIREWALL = Path(__file__).with_name("firewall")


def expert(name: str, node: str) -> LlmAgent:
    """An agent that lives on a node."""
    placement = Placement(resources={node: 0.01})
    return LlmAgent(name=name, model=PatternModel([], default=f"answered by {name}"), placement=placement)


def tree() -> LlmAgent:
    """A desk on the open node, with an expert on each node, and two that work side by side."""
    both = ParallelAgent(
        name="both", sub_agents=[expert(f"{node}_side", node) for node in NODES], placement=Placement(resources={"walled": 0.01})
    )
    experts = [expert(node, node) for node in NODES]
    ways = PatternModel([(f"to {each.name}", {"transfer": each.name}) for each in (*experts, both)])
    return LlmAgent(name="desk", model=ways, sub_agents=[*experts, both], placement=Placement(resources={"open": 0.01}))


def texts(name: str) -> list[str]:
    """What is answered to a message for an agent."""
    return sorted(f"answered by {each}" for each in ([f"{node}_side" for node in NODES] if name == "both" else [name]))


def figures(seen: RuntimeStatistics) -> Iterator[ConnectionFigures]:
    """How messages travel to and from each process."""
    found = [seen.connections, *(each.connections for each in (seen.session, seen.runner, *seen.runner.agents))]
    yield from (each for each in found if each is not None)


def talk(rt: Runtime) -> list[str]:
    """Have turns of all sessions side by side. Returns what was wrong."""
    names = (*NODES, "both")
    wrong = []
    for number in range(TURNS):
        turns = {
            session: rt.run(user_id="ada", session_id=f"s{session}", message=f"to {names[session % 3]}")
            for session in range(SESSIONS)
        }
        for session, turn in turns.items():
            answers = sorted(event.text for event in turn if event.text.startswith("answered"))
            if answers != texts(names[session % 3]):
                wrong.append(f"s{session}, turn {number}: {answers}")
    return wrong


def main(folder: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1, resources={"open": 1})
    cluster.wait_for_nodes()
    settings = Settings(log_to_driver=False)
    with Deploy("ray", folder)(tree(), app_name="nodes", address=cluster.address, settings=settings) as rt:
        # Only now, so that the Session actor and the Runner are on the other nodes.
        cluster.add_node(num_cpus=1, resources={"walled": 1}, env_vars={"PYTHONPATH": str(FIREWALL)})
        cluster.wait_for_nodes()
        began_s = time.monotonic()
        print("RESULT wrong answers", talk(rt)[:3])
        print(f"{SESSIONS * TURNS} turns in {time.monotonic() - began_s:.1f} s", file=sys.stderr)
        seen = rt.statistics()
        by_ray = {each.peer for found in figures(seen) for each in found.unreached}
        walled = {each.actor for each in seen.runner.agents if each.agent.startswith(("walled", "both"))}
        print(
            "RESULT behind the firewall", len(walled), "not reached", sorted(by_ray - walled), "reached", sorted(walled - by_ray)
        )
        print("RESULT why", {each.reason.partition(": ")[2] for found in figures(seen) for each in found.unreached})
        logs = [rt.sessions.get("ada", f"s{session}") for session in range(SESSIONS)]
        gaps = [
            log.id for log in logs if log is not None and [each.seq for each in log.events] != list(range(1, len(log.events) + 1))
        ]
        print("RESULT logs with gaps", gaps, len(logs))
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
