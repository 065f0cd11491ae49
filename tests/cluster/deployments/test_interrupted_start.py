"""Ctrl-C while a Runtime starts on Ray: Ray is closed when no thread uses it any more, since that would crash the process."""

from __future__ import annotations

import pytest

from tests.support.nodes.node_programs import open_folder, run_program


@pytest.mark.full
@pytest.mark.timeout(100)
def test_a_start_that_is_interrupted_ends_before_ray_is_closed() -> None:
    with open_folder() as folder:
        told, log = run_program("programs.interrupted", folder, timeout_s=90)
    assert told == ["still connected True", "interrupted"], log
