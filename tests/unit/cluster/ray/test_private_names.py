"""Ray's private names: without one a public way is taken, and the log says what is lost; and lines of Ray that are hidden."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
import ray
from ray._private import ray_logging, worker

import runtime.cluster.ray
from runtime.cluster.deployments import named_actors
from runtime.cluster.ray import control_service, names, nodes, process, tokens
from runtime.cluster.ray.connections import connected
from runtime.cluster.ray.names import PrivateName
from runtime.cluster.ray.process import hide_noise


def private_names() -> Iterator[PrivateName]:
    """All that the modules of the room define."""
    folder = runtime.cluster.ray
    for each in walk_packages(folder.__path__, f"{folder.__name__}."):
        for value in vars(import_module(each.name)).values():
            values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            yield from (name for name in values if isinstance(name, PrivateName))


ALL = sorted({f"{each.module}.{each.path}": each for each in private_names()}.items())


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Ray without any of the names. Returns the log."""

    def missing(name: PrivateName) -> None:
        raise AttributeError(name.path)

    monkeypatch.setattr(PrivateName, "find", missing)
    for cached in (names._log_loss, process.title_functions):
        cached.cache_clear()
    caplog.set_level(logging.WARNING, names.logger.name)
    return caplog


@pytest.mark.parametrize("name", [name for _, name in ALL], ids=[where for where, _ in ALL])
def test_this_ray_has_every_name(name: PrivateName) -> None:
    name.find()
    assert name.lost


def test_what_is_lost_is_logged_once(without: pytest.LogCaptureFixture) -> None:
    assert [nodes.logs_folder(), nodes.collects_metrics()] == [None, False]
    (record,) = without.records
    said = record.getMessage()
    assert f"Ray {ray.__version__} has no ray._private.worker._global_node" in said
    assert "no log files beside Ray's" in said


def test_a_name_that_takes_other_arguments_is_as_good_as_none(caplog: pytest.LogCaptureFixture) -> None:
    names._log_loss.cache_clear()
    name = PrivateName("os.path", "basename", "no folder is shown")
    with name.or_without():
        name.find()("a", "b")
    assert "no folder is shown (basename() takes 1" in caplog.text


@pytest.mark.parametrize(
    ("variables", "file", "found"),
    [
        ({}, None, False),
        ({}, "secret\n", True),
        ({}, "\n", False),
        ({"RAY_AUTH_TOKEN": "secret"}, None, True),
        ({"RAY_AUTH_TOKEN_PATH": "another"}, None, False),
        ({"RAY_AUTH_TOKEN_PATH": ".ray/auth_token", "HOME": "/nonexistent"}, "secret", True),
    ],
)
def test_a_token_is_looked_for_where_ray_documents_it(
    without: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variables: dict[str, str],
    file: str | None,
    found: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in tokens.TOKENS:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    if file is not None:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(file)
    assert tokens.has_token() is found


def test_the_mode_of_the_token_is_in_the_environment_at_least(
    without: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tokens.MODE, "token")
    tokens.use_mode("disabled")
    assert os.environ[tokens.MODE] == "disabled"
    tokens.use_mode(None)
    assert tokens.MODE not in os.environ
    assert "RAY_AUTH_MODE has to be set before it starts" in without.text


def test_the_interval_of_metrics_is_read_from_the_environment(
    without: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(nodes.METRICS_INTERVAL, raising=False)
    assert nodes.metrics_interval_s() == 10.0
    monkeypatch.setenv(nodes.METRICS_INTERVAL, "2500")
    assert nodes.metrics_interval_s() == 2.5


def test_the_process_goes_on_without_a_title_a_name_and_a_quiet_end(without: pytest.LogCaptureFixture) -> None:
    process.hide_noise()
    process.print_no_stack()
    process.put_up_title("ray::Agent[desk]")
    process.detach()
    assert process.output_name("desk") == ""
    for lost in ("Ray's own titles", "by its process only", "start processes with 'spawn'", "many worker processes"):
        assert lost in without.text


def test_a_ray_that_cannot_be_asked_before_it_is_joined_is_not_asked(without: pytest.LogCaptureFixture) -> None:
    assert control_service.ask_versions("127.0.0.1:6379", 1.0) is None
    assert control_service.present_actors("127.0.0.1:6379") is None


def test_what_is_free_in_the_cluster_stands_for_what_is_free_on_a_node(local_ray: str, without: pytest.LogCaptureFixture) -> None:
    free = nodes.free_resources({"here": {"CPU": 1.0, "a_thing": 2.0}})
    assert free == {"here": {"CPU": 1.0, "a_thing": 0.0}}


def test_the_address_and_the_names_of_actors_come_over_the_connection(local_ray: str, without: pytest.LogCaptureFixture) -> None:
    @ray.remote(num_cpus=0)
    class Desk:
        pass

    desk = Desk.options(name="desk/session", namespace="elsewhere").remote()  # type: ignore[attr-defined]
    ray.get(desk.__ray_ready__.remote())
    (found,) = [each for each in named_actors(local_ray) if each.namespace == "elsewhere"]
    assert (found.name, found.pid, found.node, found.started_s) == ("desk/session", 0, "", None)
    assert nodes.running_address() == local_ray
    with pytest.raises(ConnectionError, match="can ask no other one"), connected("192.0.2.1:6379"):
        pass
    ray.kill(desk)


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
