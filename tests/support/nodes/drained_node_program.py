"""A program: the node of the Session actor and the Runner is preempted during a map, and dies at once.

Run by test_nodes.py in a process of its own, since it makes a cluster of its own. Argument: a folder.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster

from actors import LlmAgent
from actors.testing import PatternModel
from runtime import Runtime
from runtime.settings import Settings
from tests.support.nodes.drains import drain
from tests.support.nodes.two_nodes_program import NO_POSTGRES, QUICK
from tests.support.servers.postgres_server import NoPostgresError, postgres

INPUTS = 800
BEFORE = 100
"""Answers before the node is drained."""


def main(folder: Path) -> None:
    """Print how many inputs of the map were answered."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": QUICK})
    with postgres(folder) as url:
        lost = cluster.add_node(num_cpus=1, resources={"core": 1})
        cluster.wait_for_nodes()
        with Runtime(
            LlmAgent(name="root", model=PatternModel([], default="answered")),
            app_name="drained",
            address=cluster.address,
            session_store=url,
            artifact_store=f"file://{folder}/artifacts",
            settings=Settings(core_resources={"core": 0.01}, log_to_driver=False),
        ) as rt:
            before = rt.statistics()
            cluster.add_node(num_cpus=1, resources={"core": 1})
            answers, errors, last_s, longest_s = 0, [], time.monotonic(), 0.0
            for result in rt.map([f"no. {number}" for number in range(INPUTS)], concurrency=16):
                longest_s, last_s = max(longest_s, time.monotonic() - last_s), time.monotonic()
                if result.error is not None:
                    errors.append(str(result.error))
                answers += result.error is None
                if answers == BEFORE:
                    drain(cluster.address, lost.node_id, "PREEMPTION", 60)
                    cluster.remove_node(lost, allow_graceful=False)
            after = rt.statistics()
            print("RESULT answers", answers)
            print("RESULT errors", errors[:3])
            print("RESULT moved", before.session.pid != after.session.pid, before.runner.pid != after.runner.pid)
            print(f"longest time without an answer: {longest_s:.1f} s", file=sys.stderr)
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except NoPostgresError as reason:
        print(reason, file=sys.stderr)
        sys.exit(NO_POSTGRES)
