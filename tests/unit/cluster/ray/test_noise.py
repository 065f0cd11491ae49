"""Lines of Ray that a user can do nothing about are hidden, and no others."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from ray._private import ray_logging, worker

from runtime.cluster.ray.process import hide_noise

MANY = (
    "WARNING: 38 PYTHON worker processes have been started on node: e99a with address: 192.0.2.2, which is 19x the maximum "
    "expected startup concurrency (2). This could be a result of using a large number of actors"
)
LOST = "A worker died or was killed while executing a task by an unexpected system error."


@pytest.fixture
def deduplicator(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("stdout_deduplicator", "stderr_deduplicator"):
        monkeypatch.setattr(ray_logging, name, ray_logging.LogDeduplicator(5, None, None))
    return ray_logging.stdout_deduplicator


def shown(deduplicator: Any, *lines: str) -> list[str]:
    batch = {"pid": "raylet", "is_err": False, "lines": list(lines)}
    return [line for each in deduplicator.deduplicate(batch) for line in each["lines"]]


def test_the_warning_of_many_processes_is_hidden(deduplicator: Any) -> None:
    assert shown(deduplicator, MANY) == [MANY]
    hide_noise()
    assert shown(deduplicator, MANY.replace("38", "48"), LOST) == [LOST]


def test_messages_of_rays_own_are_no_lines_of_the_program(
    deduplicator: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdout_deduplicator", "stderr_deduplicator"):
        monkeypatch.setattr(worker, name, getattr(ray_logging, name))
    hide_noise()
    hide_noise()
    for pid in ("raylet", 4711):
        worker.print_to_stdstream({"pid": pid, "ip": "192.0.2.2", "is_err": False, "lines": [f"said by {pid}"]}, True)
    out, err = capsys.readouterr()
    assert "said by raylet" in err
    assert "said by raylet" not in out
    assert "said by 4711" in out


def test_what_a_user_hides_stays_hidden(deduplicator: Any) -> None:
    deduplicator.skip_re = deduplicator.allow_re
    deduplicator.__init__(5, None, "secret")
    hide_noise()
    assert shown(deduplicator, MANY, "a secret") == [MANY]


def test_notebooks_get_no_advice_about_widgets() -> None:
    assert logging.getLogger("ray.widgets.util").getEffectiveLevel() == logging.WARNING
