"""A deployment whose Session actor is being started again is deployed: commands know it, and say so."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from typer.testing import CliRunner

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.cluster.deployments import named_actors
from runtime.frontends.console import cli, options
from runtime.settings import Settings
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

APP, LOST = "restarted", "lost"


class Gated:
    """An actor that is there at once, and starts again when a file is there."""

    def __init__(self, folder: str) -> None:
        if Path(folder, "started").exists():
            until(Path(folder, "go").exists)
        Path(folder, "started").touch()

    def pid(self) -> int:
        """Its process."""
        return os.getpid()


@pytest.fixture
def gate(local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file for which a Session actor waits that was killed."""
    monkeypatch.setenv("RAY_ADDRESS", local_ray)
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1)(Gated)
    actor: Any = kind.options(name=f"{APP}/session", namespace=Settings().namespace).remote(str(tmp_path))
    os.kill(ray.get(actor.pid.remote()), signal.SIGKILL)
    until(lambda: any(each.app == APP and each.is_restarting for each in named_actors(local_ray)))
    yield tmp_path / "go"
    (tmp_path / "go").touch()
    ray.kill(actor)


def raygrove(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_is_listed_with_a_note(gate: Path) -> None:
    def rows() -> list[dict[str, object]]:
        return [row for row in map(json.loads, raygrove("ps", "--json").splitlines()) if row["name"] == APP]

    until(lambda: rows()[0].get("restarting"))
    [row] = rows()
    assert "error" not in row
    heads, *lines = [line.split("\t") for line in raygrove("ps").splitlines()]
    [cells] = [line for line in lines if line[0] == APP]
    assert dict(zip(heads, cells, strict=True))["NOTE"] == "restarting"
    assert APP in options.complete_deployment(APP[:4])


@pytest.mark.parametrize("engine", ["ray"])
def test_commands_find_it_at_every_moment(deploy: Deploy, local_ray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", local_ray)
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    with deploy(root, app_name=LOST) as rt:
        run_turn(rt, "hi")
        for part in ("session", "runner"):
            before = getattr(rt.statistics(), part).pid
            os.kill(before, signal.SIGKILL)
            while getattr(rt.statistics(), part).pid == before:
                assert LOST in [json.loads(line)["name"] for line in raygrove("ps", "--json").splitlines()]
                assert raygrove("turns", LOST, "--json", "--user", "ada")
        assert "\tlost processes 2\t" in raygrove("top", LOST, "--count", "1", "--interval", "0.1")
