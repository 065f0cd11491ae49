"""The node of the Session actor and the Runner is drained."""

from __future__ import annotations

import pytest

from tests.support.nodes.drained_node_program import INPUTS
from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.full
@pytest.mark.timeout(200)
def test_a_map_is_answered_when_the_node_is_preempted_and_dies() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.drained_node", folder, timeout_s=180)
    assert told == [f"answers {INPUTS}", "errors []", "moved True True"], log
