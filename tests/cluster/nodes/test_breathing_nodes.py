"""Agents follow the nodes of a cluster: one that joins under load, and one that is drained."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.full
@pytest.mark.timeout(200)
def test_a_node_that_joins_works_and_one_that_drains_is_left_while_turns_go_on() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.breathing_nodes", folder, timeout_s=180)
    assert told == [
        "limit 8",
        "the head has no agent True",
        "limit 16",
        "the new node has its share True",
        "it is left before its deadline True",
        "limit 8",
        "nothing was lost True",
        "wrong answers []",
    ], log
