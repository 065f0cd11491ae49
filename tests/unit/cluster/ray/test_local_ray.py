"""A local Ray is started without what one program does not need, and Ray itself stays as it is."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import ray
from ray._private.node import Node

from actors import LlmAgent
from actors.errors import ClusterError, DefinitionError
from actors.testing import PatternModel
from runtime import Runtime
from runtime.cluster.deployment.connection import RayConnection
from runtime.cluster.ray import names, worker_forks
from runtime.cluster.ray.local_ray import light_ray, wait_until_registered
from runtime.settings import Settings

METHODS = ("start_monitor", "start_api_server", "start_raylet", "start_log_monitor")


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


@pytest.fixture
def kinds_started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each local Ray was started that a Runtime has asked for. None is, in fact."""
    kinds: list[str] = []
    original = Node.start_raylet

    def init(**options: Any) -> None:
        kinds.append("plain" if Node.start_raylet is original else "light")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return kinds


def open_and_close(settings: Settings) -> None:
    connection = RayConnection(settings, None)
    connection.open()
    connection.close()


def test_the_setting_says_how_a_local_ray_starts(kinds_started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYGROVE_LOCAL_RAY", raising=False)
    open_and_close(Settings())
    open_and_close(Settings(local_ray="plain"))
    monkeypatch.setenv("RAYGROVE_LOCAL_RAY", "plain")
    open_and_close(Settings())
    assert kinds_started == ["light", "plain", "plain"]
    with pytest.raises(DefinitionError, match="local_ray='heavy'"):
        Settings(local_ray=cast(Any, "heavy"))


class StartedNode:
    """What Ray's Node is when its raylet was started, as far as our part of the start needs it. The raylet is this process."""

    raylet_socket_name = "raylet"
    kernel_fate_share = False

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._ray_params = SimpleNamespace(env_vars={})
        self.all_processes = {"raylet": [SimpleNamespace(process=SimpleNamespace(pid=os.getpid()))]}

    def get_logs_dir_path(self) -> str:
        return str(self._logs)


@pytest.mark.skipif(Settings().local_ray == "plain", reason="a plain Ray has no such workers")
@pytest.mark.parametrize(
    ("store", "imported"),
    [("sqlite:///{}/sessions.db", []), ("postgresql://user@host/db", ["psycopg"])],
)
def test_workers_have_the_driver_of_postgresql_where_sessions_are_stored_there(
    store: str, imported: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []

    def start_process(command: list[str], kind: str, **options: Any) -> None:
        commands.append(command)

    def init(**options: Any) -> None:
        cast(Any, Node).start_raylet(StartedNode(tmp_path))
        raise RuntimeError("this is all that is started")

    monkeypatch.setattr(Node, "start_raylet", lambda node: None)
    monkeypatch.setattr("ray._private.services.start_ray_process", start_process)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    rt = Runtime(
        root, app_name="stored", engine="ray", session_store=store.format(tmp_path), artifact_store=f"file://{tmp_path}/a"
    )
    with pytest.raises(ClusterError, match="all that is started"):
        rt.start()
    (command,) = commands
    assert command[command.index(str(os.getpid())) + 1 :] == [str(tmp_path), *imported]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("2.51.2", "plain"),
        ("2.52.0", "light"),
        ("2.60.3", "light"),
        ("2.61.0rc1", "plain"),
        ("3.0.0.dev0", "plain"),
        ("?", "plain"),
    ],
)
def test_a_ray_with_which_raygrove_is_not_tested_starts_as_ray_has_it(
    version: str, kind: str, kinds_started: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names._is_tested.cache_clear()
    monkeypatch.setattr(ray, "__version__", version)
    for _ in range(2):
        open_and_close(Settings(local_ray="light"))
    assert kinds_started == [kind, kind]
    said = [record.getMessage() for record in caplog.records if record.name == names.logger.name]
    expected = f"raygrove is not tested with Ray {version}, but with ray>=2.52,<2.61: a local Ray starts as Ray has it"
    assert said == ([expected] if kind == "plain" else [])


def test_the_range_is_that_of_the_package_and_locks_have_its_ends() -> None:
    root = Path(__file__).parents[4]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    named = [each for each in [*project["dependencies"], *extras] if re.match(r"ray\b", each)]
    assert [each.partition(">")[0] for each in named] == ["ray", "ray[data]"]
    assert {re.sub(r"^ray(\[data\])?", "", each) for each in named} == {names.RANGE}
    lowest = (root / "tests" / "rays" / "lowest.lock").read_text()
    assert re.search(rf"^ray=={names.LOWEST[0]}\.{names.LOWEST[1]}\.0 ", lowest, re.MULTILINE)
    major, minor = names.BELOW
    for lock in ("requirements.lock", "requirements-dev.lock"):
        assert re.search(rf"^ray=={major}\.{minor - 1}\.", (root / lock).read_text(), re.MULTILINE)


def started_with(context: dict[str, Any], language: str = "PYTHON") -> list[str]:
    """What a raylet starts the program with that becomes a worker."""
    return [
        "worker.py",
        "--node-ip-address=::1",
        f"--language={language}",
        f"{worker_forks.CONTEXT}{json.dumps(context)}",
        "--last",
    ]


NOTHING_ELSE = {"command_prefix": [], "env_vars": {}, "py_executable": sys.executable, "java_jars": []}
"""A runtime environment that asks for nothing."""


def test_a_worker_is_forked_with_what_ray_passes_on_to_it() -> None:
    expected = ["worker.py", "--node-ip-address=::1", "--last"]
    assert worker_forks.worker_program(started_with(NOTHING_ELSE)) == expected
    assert worker_forks.worker_program(started_with({})) == expected


@pytest.mark.parametrize(
    "given",
    [
        started_with({**NOTHING_ELSE, "env_vars": {"PYTHONPATH": "/code:${PYTHONPATH}"}}),
        started_with({**NOTHING_ELSE, "command_prefix": ["podman", "run"]}),
        started_with({**NOTHING_ELSE, "override_worker_entrypoint": "/in/the/container.py"}),
        started_with({**NOTHING_ELSE, "what_a_later_ray_has": True}),
        started_with({**NOTHING_ELSE, "py_executable": "nsys profile python"}),
        started_with(NOTHING_ELSE, "JAVA"),
        [each for each in started_with(NOTHING_ELSE) if not each.startswith("--language")],
    ],
)
def test_a_worker_that_asks_for_more_is_left_to_ray(given: list[str]) -> None:
    assert worker_forks.worker_program(given) is None


def test_a_task_on_a_local_ray_has_its_runtime_environment(local_ray: str) -> None:
    @ray.remote(num_cpus=0, runtime_env={"env_vars": {"WHERE_IT_RUNS": "here"}})
    def where() -> str:
        return os.environ["WHERE_IT_RUNS"]

    assert ray.get(where.remote()) == "here"


@pytest.mark.parametrize("looks", [[{}, {}, {"node": 1}], [{"node": 1}]])
def test_a_start_goes_on_as_soon_as_the_raylet_is_ready(looks: list[dict[str, int]]) -> None:
    class Node:
        def get_gcs_client(self) -> Any:
            return self

        def get_all_node_info(self) -> dict[str, int]:
            return looks.pop(0)

    wait_until_registered(Node())
    assert looks == []
    # Another version of Ray.
    wait_until_registered(object())
