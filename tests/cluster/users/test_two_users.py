"""Two users on one machine: the other one tries every file, folder, socket and port of a program that uses a local Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.agents.busy_agent import when_working
from tests.support.machine import other_user
from tests.support.machine.listening import TRY_PORTS, descendants, ports_of
from tests.support.machine.other_user import NEEDS_ROOT, USER, folder_of_all, run_as_other
from tests.support.machine.ray_environment import without_ray
from tests.support.machine.trespass import processes_of, things_of, trespasses

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
