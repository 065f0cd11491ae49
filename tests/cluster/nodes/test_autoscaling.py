"""Ray's own autoscaler adds nodes for an agent that is busy, and takes them away when it is idle."""

from __future__ import annotations

import pytest

from tests.support.nodes.autoscaled import end_processes_of
from tests.support.nodes.node_programs import open_folder, run_program


# By hand: where the machine has much else to do, nodes take a minute to start.
@pytest.mark.soak
@pytest.mark.timeout(320)
def test_a_busy_agent_gets_nodes_and_they_are_given_back() -> None:
    with open_folder() as folder:
        try:
            told, log = run_program("nodes.autoscaled", folder, timeout_s=300)
        finally:
            end_processes_of(folder)
    assert told == [
        "nodes for one turn 1",
        "nodes under load 4",
        "each node has half of its share at least True",
        "nodes at rest 0",
        "nodes for one turn 1",
    ], log
