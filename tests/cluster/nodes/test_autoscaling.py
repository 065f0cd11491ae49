"""Ray's own autoscaler adds nodes for an agent that is busy, and takes them away when it is idle."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.full
@pytest.mark.timeout(320)
def test_a_busy_agent_gets_nodes_and_they_are_given_back() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.autoscaled", folder, timeout_s=300)
    assert told == [
        "nodes for one turn 1",
        "nodes under load 4",
        "each node has half of its share at least True",
        "nodes at rest 0",
        "nodes for one turn 1",
    ], log
