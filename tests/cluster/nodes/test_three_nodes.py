"""Session actors, Runners and agents on three nodes: nodes that come and go under load, and one behind a firewall."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program
from tests.support.nodes.three_nodes_program import RUNNERS


# test_two_nodes.py loses a node as well, and test_breathing_nodes.py has one join and one leave.
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("experts", "sessions", "turns"), [(2, 200, 1), (8, 200, 20)])
def test_all_turns_are_answered_although_nodes_come_and_go(experts: int, sessions: int, turns: int) -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.three_nodes", folder, experts, sessions, turns, timeout_s=580)
    assert told == [
        f"each Runner has its own actors of all agents {[RUNNERS] * (experts + 1)}",
        "on each node are agents True",
        "on each node are Session actors True",
        "Runners are on different nodes True",
        "all live on the nodes that are there True",
        "the new node is used True",
        "wrong answers []",
        "flaws of logs []",
        "listed True",
    ], log


@pytest.mark.full
@pytest.mark.timeout(120)
def test_a_node_behind_a_firewall_is_reached_by_ray() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.firewall", folder, timeout_s=100)
    assert told == [
        "wrong answers []",
        "behind the firewall 3 not reached [] reached []",
        "why {'it does not answer (no answer in 5 s)'}",
        "logs with gaps [] 20",
    ], log
