"""Nothing is lost, doubled or left open when agents, supervisors, the Runner or the Session actor are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kill_storm import run_storm

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.mark.timeout(240)
def test_a_short_storm(tmp_path: Path) -> None:
    report = run_storm(tmp_path, sessions=6, turns=4, pause_s=1.0, seed=1)
    assert report.turns == 24
    assert report.killed.total() >= 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_long_storm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run_storm(tmp_path, sessions=20, turns=16, pause_s=1.0, seed=7)
    with capsys.disabled():
        print("", *report.lines(), sep="\n")
    assert report.turns >= 300
    assert report.killed.total() >= 20
