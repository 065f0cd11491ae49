"""Two users on one machine: the other one tries every file, folder, socket and port of a program that uses a local Ray.

The other user of a machine tries all of a deployment on a Ray of its own, and of a server over HTTP: ports, files, sockets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.agents.busy_agent import when_working
from tests.support.app_folders import HELLO, write
from tests.support.machine import other_user
from tests.support.machine.listening import TRY_PORTS, descendants, ports_of
from tests.support.machine.other_user import NEEDS_ROOT, USER, folder_of_all, run_as_other
from tests.support.machine.ray_environment import without_ray
from tests.support.machine.trespass import processes_of, things_of, trespasses
from tests.support.servers.ray_head import Head, started

pytestmark = [pytest.mark.full, NEEDS_ROOT]

ROOT = Path(__file__).parents[3]
SECRET = "the-word-of-ada"

TRY_FILES = """
found, told = {"read": [], "listed": [], "written": [], "connected": []}, set(json.loads(sys.argv[2]))
def attempt(kind, path, call):
    try:
        call()
    except OSError:
        return
    found[kind].append(str(path))
def connect(path):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(path))
for folder in sys.argv[1].split(":"):
    for name, folders, files in os.walk(folder):
        here = Path(name)
        attempt("listed", here, lambda: os.listdir(here))
        attempt("written", here, lambda: (os.mkdir(here / "mine"), os.rmdir(here / "mine")))
        told |= {str(here / each) for each in files + folders}
for path in sorted(told):
    if os.path.isdir(path):
        continue
    attempt("read", path, lambda: open(path, "rb").read())
    attempt("connected", path, lambda: connect(path))
    attempt("written", path, lambda: open(path, "ab").close())
print(json.dumps(found))
"""


class Program:
    """A program with a local Ray, in a folder that all users may change.

    Attributes:
        folder: it has the program's home, its working directory, and the folder for temporary files.
        address: of its Ray.
        accepted: how many connections of its own the Session actor has taken.
        began_s: when it was started, in seconds since the epoch.
        said: what it has answered.
        pipe: the turn of each line that it is told goes on when something was written there.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[str], began_s: float) -> None:
        self.folder, self.process, self.began_s = folder, process, began_s
        self.pipe = folder / "work" / "pipe"
        self.address, self.accepted, self.said = self.told("ready").split(" ", 2)

    def told(self, word: str) -> str:
        """What it says after a word. What its tools print comes as well."""
        assert self.process.stdout is not None
        line = next(line for line in self.process.stdout if line.startswith(f"{word} "))
        return line.rstrip("\n").removeprefix(f"{word} ")

    @property
    def pids(self) -> list[int]:
        """It, and all processes that it has started."""
        return descendants(self.process.pid)


@contextmanager
def program(folder: Path) -> Iterator[Program]:
    """Run it. The folder's names for its home and its temporary files may be there already."""
    began_s = time.time()
    kept = without_ray("RAYGROVE_")
    places = {"HOME": folder / "home", "TMPDIR": folder}
    for each in (folder / "home", folder / "work"):
        each.mkdir(0o755)
    os.mkfifo(folder / "work" / "pipe", 0o600)
    command = [sys.executable, "-m", "tests.support.programs.private_program", SECRET, str(folder / "work" / "pipe")]
    with subprocess.Popen(
        command,
        cwd=folder / "work",
        env={**kept, **{name: str(path) for name, path in places.items()}, "PYTHONPATH": str(ROOT), "A_KEY": SECRET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        umask=0o022,
    ) as process:
        # It ends with its standard input, which the block closes.
        yield Program(folder, process, began_s)


@pytest.fixture(scope="module")
def running() -> Iterator[Program]:
    """The program, started where the other user has taken every name that can be foreseen."""
    with folder_of_all() as folder:
        taken = folder / f"raygrove-{os.geteuid()}"
        taken.mkdir(0o700)
        os.chown(taken, USER, USER)
        with program(folder) as found:
            yield found


def test_a_program_starts_where_another_user_has_taken_its_names(running: Program) -> None:
    assert running.said.startswith(f'{{"result":"{SECRET} is said by ')
    assert int(running.accepted) > 0
    assert os.listdir(running.folder / f"raygrove-{os.geteuid()}") == []


def test_no_file_is_read_and_no_socket_entered_by_another_user(running: Program) -> None:
    files = [str(path) for path in running.folder.rglob("*")]
    kinds = {
        name: any(name in path for path in files)
        for name in ("private.db", "private.db-wal", "letter", ".sock", "raylet.f/asked", "auth_token")
    }
    assert all(kinds.values()), kinds
    listening = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if str(running.folder) in line]
    assert len(listening) > 3
    found = json.loads(run_as_other(TRY_FILES, str(running.folder), json.dumps(files + listening)))
    of_others = {str(running.folder), str(running.folder / f"raygrove-{os.geteuid()}")}
    of_users = {str(running.folder / name) for name in ("home", "work")}
    assert found == {
        "read": [],
        "connected": [],
        "listed": [each for each in found["listed"] if each in of_others | of_users],
        "written": [each for each in found["written"] if each in of_others],
    }


def test_nothing_that_its_processes_have_open_is_reached_by_another_user_while_a_turn_runs(running: Program) -> None:
    assert running.process.stdin is not None
    print("work", file=running.process.stdin, flush=True)
    going_on = when_working(running.pipe)
    try:
        pids = processes_of(running.process.pid)
        paths = things_of(pids, running.began_s)
        for kind in (
            "/private.db-wal",
            "/raygrove-python-",
            "/kept.txt",
            ".sock",
            "raylet.f/asked",
            "/letter.txt",
            "/logs/",
            "plasma",
        ):
            assert any(kind in path for path in paths), kind
        of_user = [running.folder / name for name in ("home", "work")]
        assert trespasses(pids, paths, [running.folder, Path("/tmp")], of_user) == []
    finally:
        os.close(going_on)
    assert running.told("worked") == "whole"


def test_no_environment_or_memory_is_read_by_another_user(running: Program) -> None:
    reads = """
for pid, name in itertools.product(sys.argv[1:], ("environ", "mem", "fd", "cwd", "cmdline")):
    try:
        path = f"/proc/{pid}/{name}"
        data = os.listdir(path) if name == "fd" else os.readlink(path) if name == "cwd" else open(path, "rb").read()
    except OSError:
        continue
    print(pid, name, data)
"""
    told = run_as_other(reads, *map(str, running.pids)).splitlines()
    assert {line.split()[1] for line in told} == {"cmdline"}
    # The word is an argument of this program only.
    assert not [line for line in told if "A_KEY" in line or (SECRET in line and not line.startswith(str(running.process.pid)))]


def test_ray_refuses_another_user(running: Program) -> None:
    joins = """
import ray
from ray._raylet import GcsClient
become_other()
os.environ["HOME"] = "/nonexistent"
try:
    print(GcsClient(sys.argv[1]).internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster", timeout=10))
except Exception as error:
    print(type(error).__name__)
"""
    environment = without_ray("RAYGROVE_") | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    command = other_user.program(joins, running.address)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "AuthenticationError\n", done.stderr


def test_no_port_serves_another_user(running: Program) -> None:
    ports = ports_of(running.pids)
    found = json.loads(run_as_other(TRY_PORTS, json.dumps(sorted(ports))))
    assert len(found) == len(ports)
    for port, answers in found.items():
        assert set(answers.get("http", {}).values()) <= {"401"}, (port, answers)
        assert not answers.get("other"), (port, answers)
    refused = {method.partition("/")[0] for answers in found.values() for method in answers.get("refused", ())}
    assert refused >= {"CoreWorkerService", "NodeManagerService", "ObjectManagerService", "InternalKVGcsService"}
    assert any("http" in answers for answers in found.values())


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
