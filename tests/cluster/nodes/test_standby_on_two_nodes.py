"""A Runner and its standby are on two nodes, and the Runner is killed."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.full
@pytest.mark.timeout(200)
def test_the_standby_on_another_node_goes_on_with_the_turn() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.standby", folder, timeout_s=180)
    assert told == ["said [('root', 'answered')]", "took over True", "on another node True"], log
