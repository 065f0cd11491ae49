"""Figures and durations stand at the node's metrics endpoint, beside Ray's own, where `ray[default]` is installed."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program

pytest.importorskip("prometheus_client", reason="ray[default] has an environment of its own: make test-extras")


@pytest.mark.timeout(120)
def test_the_endpoint_of_a_node_has_the_figures_and_durations_of_what_was_run() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.ray_metrics", folder, timeout_s=100)
    assert told == ["turns 5", "wrong {}", "actors test/host/ test/limits test/runner test/session"], log
