"""A local Ray is started without what one program does not need, and Ray itself stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ray._private.node import Node

from runtime.cluster.deployment import worker_start
from runtime.cluster.deployment.local_ray import light_ray

METHODS = ("start_monitor", "start_api_server", "start_raylet")


def test_ray_has_its_own_methods_again_when_it_is_started() -> None:
    originals = [getattr(Node, name) for name in METHODS]
    with light_ray():
        assert all(getattr(Node, name) is not original for name, original in zip(METHODS, originals, strict=True))
    assert [getattr(Node, name) for name in METHODS] == originals
    with suppress(RuntimeError), light_ray():
        raise RuntimeError
    assert [getattr(Node, name) for name in METHODS] == originals


def test_a_ray_without_such_a_method_is_started_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Node, "start_monitor")
    with light_ray():
        assert not hasattr(Node, "start_monitor")
    assert not hasattr(Node, "start_monitor")


def started_with(context: dict[str, Any], language: str = "PYTHON") -> list[str]:
    """What a raylet starts the program with that becomes a worker."""
    return [
        "worker.py",
        "--node-ip-address=::1",
        f"--language={language}",
        f"{worker_start.CONTEXT}{json.dumps(context)}",
        "--last",
    ]


NOTHING_ELSE = {"command_prefix": [], "env_vars": {}, "py_executable": sys.executable, "java_jars": []}
"""A runtime environment that asks for nothing."""


def test_a_worker_is_started_with_what_ray_passes_on_to_it() -> None:
    expected = [sys.executable, "worker.py", "--node-ip-address=::1", "--last"]
    assert worker_start.worker_command(started_with(NOTHING_ELSE)) == (expected, {})
    assert worker_start.worker_command(started_with({})) == (expected, {})
    variables = {"PYTHONPATH": "/code:${PYTHONPATH}"}
    assert worker_start.worker_command(started_with({**NOTHING_ELSE, "env_vars": variables})) == (expected, variables)


@pytest.mark.parametrize(
    "given",
    [
        started_with({**NOTHING_ELSE, "command_prefix": ["podman", "run"]}),
        started_with({**NOTHING_ELSE, "override_worker_entrypoint": "/in/the/container.py"}),
        started_with({**NOTHING_ELSE, "what_a_later_ray_has": True}),
        started_with({**NOTHING_ELSE, "py_executable": "nsys profile python"}),
        started_with(NOTHING_ELSE, "JAVA"),
        [each for each in started_with(NOTHING_ELSE) if not each.startswith("--language")],
    ],
)
def test_what_asks_for_more_is_left_to_ray(given: list[str]) -> None:
    assert worker_start.worker_command(given) is None


def test_the_program_becomes_the_worker(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import os, sys\nprint(sys.argv[1:], os.environ['WHERE'], 'ray' in sys.modules)")
    context = {"env_vars": {"WHERE": "${HERE}/lib:${NOWHERE}"}}
    command = [sys.executable, worker_start.__file__, str(worker), *started_with(context)[1:]]
    done = subprocess.run(command, env={**os.environ, "HERE": "/here"}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['--node-ip-address=::1', '--last'] /here/lib: False"
    command = [sys.executable, worker_start.__file__, str(worker), *started_with({**context, "command_prefix": ["echo"]})[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("exec ")


def test_workers_of_a_local_ray_are_started_by_it(local_ray: str) -> None:
    raylet = next(each for each in Path("/proc").glob("[0-9]*/cmdline") if is_raylet_of(local_ray, each))
    assert worker_start.__file__ in raylet.read_text()


def is_raylet_of(address: str, command: Path) -> bool:
    with suppress(OSError):
        text = command.read_text(errors="replace")
        return text.partition("\0")[0].endswith("/raylet") and address in text
    return False
