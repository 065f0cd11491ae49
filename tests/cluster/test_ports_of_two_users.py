"""The other user of a machine tries every port of a deployment on a Ray of its own, and of a server over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cluster.test_joining import Head, started
from tests.support.app_folders import HELLO, write
from tests.support.listening import TRY_PORTS, descendants, ports_of
from tests.support.other_user import NEEDS_ROOT, run_as_other

pytestmark = NEEDS_ROOT

TOKEN = "a-token-of-an-operator"


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """A Ray with a deployment, which `raygrove start` has started."""
    with started("token") as head:
        write(head.folder / "code" / "greeter", {"agent.py": HELLO})
        assert head.raygrove("start", "code/greeter")[1] == ""
        yield head


def tried(pid: int) -> dict[str, dict[str, dict[str, str]]]:
    """What answers another user at the ports of a process and all that it has started."""
    found: dict[str, dict[str, dict[str, str]]] = json.loads(
        run_as_other(TRY_PORTS, json.dumps(sorted(ports_of(descendants(pid)))))
    )
    return found


def test_no_port_of_a_detached_deployment_serves_another_user(head: Head) -> None:
    assert head.raygrove("run", "greeter", "hi", "--address", head.address)[0] == "Hello, my friend!\n"
    found = tried(head.pid)
    for port, answers in found.items():
        assert set(answers.get("http", {}).values()) <= {"401"}, (port, answers)
        assert not answers.get("other"), (port, answers)
    refused = {method.partition("/")[0] for answers in found.values() for method in answers.get("refused", ())}
    assert refused >= {"CoreWorkerService", "NodeManagerService", "ObjectManagerService", "InternalKVGcsService"}
    assert head.raygrove("run", "greeter", "hi", "--address", head.address)[0] == "Hello, my friend!\n"


def test_a_server_with_tokens_says_nothing_of_an_app_to_another_user(head: Head) -> None:
    tokens = head.folder / "tokens.json"
    tokens.write_text(json.dumps({TOKEN: {"is_admin": True}}))
    command = [str(Path(sys.executable).with_name("raygrove")), "serve", "greeter", "--join", "--port", "0"]
    options = ["--address", head.address, "--tokens", str(tokens)]
    with subprocess.Popen(command + options, cwd=head.folder, env=head.environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = next(line for line in server.stdout if "http://" in line).split()[-1]
            found = tried(server.pid)
            (of_http,) = [answers["http"] for port, answers in found.items() if port.endswith(f" {url.rpartition(':')[2]}")]
            assert (of_http["GET /v1/apps"], of_http["GET /metrics"]) == ("401", "401")
            others = [answers for answers in found.values() if answers.get("http") != of_http]
            assert others
            assert not [answers for answers in others if answers.get("http") or answers.get("other")]
            given = httpx2.get(f"{url}/v1/apps", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
            assert given.status_code == 200
        finally:
            server.terminate()
