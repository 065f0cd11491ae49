"""Ray Serve's replicas are servers of a deployment as others are: the recipe of the page on HTTP."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program

pytest.importorskip("ray.serve", reason="Ray Serve has an environment of its own: make test-extras", exc_type=ImportError)


@pytest.mark.timeout(200)
def test_a_stream_goes_on_at_another_replica() -> None:
    with open_folder() as folder:
        told, log = run_program("nodes.ray_serve", folder, timeout_s=180)
    assert told == ["all True", "replicas 2"], log
