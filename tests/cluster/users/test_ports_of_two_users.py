"""The other user of a machine tries all of a deployment on a Ray of its own, and of a server over HTTP: ports, files, sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.agents.busy_agent import when_working
from tests.support.app_folders import HELLO, write
from tests.support.machine.listening import TRY_PORTS, descendants, ports_of
from tests.support.machine.other_user import NEEDS_ROOT, run_as_other
from tests.support.machine.trespass import processes_of, things_of, trespasses
from tests.support.servers.ray_head import Head, started

pytestmark = [pytest.mark.full, NEEDS_ROOT]

TOKEN = "a-token-of-an-operator"

BUSY = """
    from pathlib import Path

    from tests.support.agents.busy_agent import busy_agent

    root_agent = busy_agent("the-word-of-ada", Path({pipe!r}))
"""


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """A Ray with a deployment, which `raygrove start` has started."""
    with started("token") as head:
        write(head.folder / "code" / "greeter", {"agent.py": HELLO})
        assert head.raygrove("start", "code/greeter")[1] == ""
        yield head


@pytest.fixture(scope="module")
def pipe(head: Head) -> Path:
    """A turn of the deployment `busy` goes on until this is written to."""
    os.mkfifo(pipe := head.folder / "pipe", 0o600)
    write(head.folder / "code" / "busy", {"agent.py": BUSY.format(pipe=str(pipe))})
    assert head.raygrove("start", "code/busy")[1] == ""
    return pipe


@contextmanager
def served(head: Head, app: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of a deployment that asks for a token, and its URL."""
    tokens = head.folder / "tokens.json"
    tokens.touch(0o600)
    tokens.write_text(json.dumps({TOKEN: {"is_admin": True}}))
    command = [str(Path(sys.executable).with_name("raygrove")), "serve", app, "--join", "--port", "0"]
    options = ["--address", head.address, "--tokens", str(tokens)]
    with subprocess.Popen(command + options, cwd=head.folder, env=head.environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, next(line for line in server.stdout if "http://" in line).split()[-1]
        finally:
            server.terminate()


def tried(pid: int) -> dict[str, dict[str, dict[str, str]]]:
    """What answers another user at the ports of a process and all that it has started."""
    found: dict[str, dict[str, dict[str, str]]] = json.loads(
        run_as_other(TRY_PORTS, json.dumps(sorted(ports_of(descendants(pid)))))
    )
    return found


@pytest.mark.soak
def test_no_port_of_a_detached_deployment_serves_another_user(head: Head) -> None:
    assert head.raygrove("run", "greeter", "hi", "--address", head.address)[0] == "Hello, my friend!\n"
    found = tried(head.pid)
    for port, answers in found.items():
        assert set(answers.get("http", {}).values()) <= {"401"}, (port, answers)
        assert not answers.get("other"), (port, answers)
    refused = {method.partition("/")[0] for answers in found.values() for method in answers.get("refused", ())}
    assert refused >= {"CoreWorkerService", "NodeManagerService", "ObjectManagerService", "InternalKVGcsService"}
    assert head.raygrove("run", "greeter", "hi", "--address", head.address)[0] == "Hello, my friend!\n"


def test_nothing_that_a_deployment_and_a_server_have_open_is_reached_by_another_user_while_a_turn_runs(
    head: Head, pipe: Path
) -> None:
    with (
        served(head, "busy") as (server, url),
        httpx2.Client(base_url=url, timeout=100) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        asked = threads.submit(client.post, "/v1/apps/busy/sessions/s1/turns?user=ada", json={"message": "work"})
        going_on = when_working(pipe)
        try:
            pids = [*processes_of(head.pid), *processes_of(server.pid)]
            paths = things_of(pids, head.folder.stat().st_ctime - 60)
            for kind in ("/busy.db-wal", "/raygrove-python-", "/kept.txt", ".sock", "/logs/", "raylet"):
                assert any(kind in path for path in paths), kind
            of_user = [head.folder, head.folder / "code", *(head.folder / "code").rglob("*")]
            assert trespasses(pids, paths, [Path("/tmp")], of_user) == []
        finally:
            os.close(going_on)
        assert "whole" in asked.result(100).text


@pytest.mark.soak
def test_a_server_with_tokens_says_nothing_of_an_app_to_another_user(head: Head) -> None:
    with served(head, "greeter") as (server, url):
        found = tried(server.pid)
        (of_http,) = [answers["http"] for port, answers in found.items() if port.endswith(f" {url.rpartition(':')[2]}")]
        assert (of_http["GET /v1/apps"], of_http["GET /metrics"]) == ("401", "401")
        others = [answers for answers in found.values() if answers.get("http") != of_http]
        assert others
        assert not [answers for answers in others if answers.get("http") or answers.get("other")]
        given = httpx2.get(f"{url}/v1/apps", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
        assert given.status_code == 200
