"""A node dies with all actors of a deployment; the store is elsewhere, so nothing of the turn is lost."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.full
@pytest.mark.timeout(200)
def test_a_turn_is_answered_although_the_node_dies_on_which_it_ran() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.two_nodes", folder, timeout_s=180)
    assert told == [
        "said [('first', 'noted'), ('second', 'answered')]",
        "seqs [1, 2, 3, 4, 5, 6, 7]",
        "notes ['once']",
        "moved True",
    ], log
