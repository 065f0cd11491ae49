"""A Ray Data pipeline whose actors join a deployment, on two nodes."""

from __future__ import annotations

import pytest

from tests.support.node_programs import open_folder, run_program


@pytest.mark.timeout(300)
def test_a_pipeline_over_two_nodes_asks_the_agents_of_a_deployment_and_asks_again_only_what_failed() -> None:
    pytest.importorskip("pyarrow")
    with open_folder() as folder:
        told, log = run_program("ray_data", folder, timeout_s=280)
    of_a_run = ["rows 40 39 2", "texts True", "state True", "bad None None OutputSchemaError", "ids june-0"]
    assert told == [*of_a_run, "calls 40", *of_a_run, "calls 41"], log
