"""A program: under load a node joins a cluster whose head has no CPUs, and later it is drained.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own. Argument: a folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from runtime import Runtime
from runtime.settings import Settings
from tests.support.nodes.node_programs import drain
from tests.support.nodes.three_nodes_program import Load, by_node, tree
from tests.support.polling import until
from tests.support.runtimes import Deploy

EXPERTS, SESSIONS = 23, 23
DEADLINE_S = 60


def agents_on(rt: Runtime, nodes: Sequence[Any]) -> list[int]:
    """How many agents live on each node."""
    return by_node(rt.statistics().agents.values(), nodes)


def limit(rt: Runtime) -> int:
    """How many processes with agents there may be."""
    return rt.statistics().runner.counts["max_hosts"]


def main(folder: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.head_node, *(cluster.add_node(num_cpus=1, labels={"role": "agents"}) for _ in range(2))]
    cluster.wait_for_nodes()
    settings = Settings(log_to_driver=False, core_label_selector={"role": "agents"})
    with Deploy("ray", folder)(tree(EXPERTS), app_name="nodes", address=cluster.address, settings=settings) as rt:
        load = Load(rt, EXPERTS, SESSIONS, 1)
        load.goes_on()
        until(lambda: len(rt.statistics().agents) == EXPERTS + 1)
        print("RESULT limit", limit(rt))
        print("RESULT the head has no agent", agents_on(rt, nodes)[0] == 0)
        nodes.append(cluster.add_node(num_cpus=2))
        began_s = time.monotonic()
        until(lambda: limit(rt) != 8)
        print("RESULT limit", limit(rt))
        until(lambda: agents_on(rt, nodes)[3])
        first_s = time.monotonic() - began_s
        until(lambda: agents_on(rt, nodes)[3] >= EXPERTS // 4)
        share_s = time.monotonic() - began_s
        print("RESULT the new node has its share", agents_on(rt, nodes)[0] == 0)
        print(f"first agent after {first_s:.1f} s, a quarter after {share_s:.1f} s: {agents_on(rt, nodes)}", file=sys.stderr)
        load.goes_on()
        began_s = time.monotonic()
        drain(cluster.address, nodes[3].node_id, "PREEMPTION", DEADLINE_S)
        until(lambda: agents_on(rt, nodes)[3] == 0)
        drained_s = time.monotonic() - began_s
        print("RESULT it is left before its deadline", drained_s < DEADLINE_S)
        print(f"left after {drained_s:.1f} s: {agents_on(rt, nodes)}", file=sys.stderr)
        print("RESULT limit", limit(rt))
        load.goes_on()
        load.stop()
        counts = rt.statistics().runner.counts
        print("RESULT nothing was lost", counts["lost"] == 0)
        print("RESULT wrong answers", load.wrong[:5])
        print(f"{sum(map(len, load.said.values()))} turns, {counts}", file=sys.stderr)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
