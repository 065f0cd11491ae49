"""Ray Data pipelines whose actors join a deployment: the example, and one on two nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.docs.runs import unknown_names
from tests.support.examples import assert_in_order, run
from tests.support.nodes.node_programs import open_folder, run_program

pytest.importorskip("pyarrow", reason="Ray Data has an environment of its own: make test-extras", exc_type=ImportError)


def test_the_example_prints_what_it_promises(tmp_path: Path) -> None:
    # Ray Data logs, and warns of its own deprecated calls.
    printed = run("ray_data", tmp_path, logs=True)
    answers = ["It crashes at night. -> bug", "How do I log in? -> question", "I love it! -> praise", "It is broken. -> bug"]
    assert_in_order(printed, answers)


def test_the_pipeline_of_the_documentation_names_nothing_that_is_not_there() -> None:
    (block,) = [block for block in blocks("python") if "ray.data" in block.code]
    assert unknown_names(block) == []


@pytest.mark.timeout(300)
def test_a_pipeline_over_two_nodes_asks_the_agents_of_a_deployment_and_asks_again_only_what_failed() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.ray_data", folder, timeout_s=280)
    of_a_run = ["rows 40 39 2", "texts True", "state True", "bad None None OutputSchemaError", "ids june-0"]
    # The last pipeline has lost a node: only calls that were under way were made again.
    assert told == [*of_a_run, "calls 40", *of_a_run, "calls 41", "many 2000 2000", "again True"], log
