"""The program from which workers are forked, with a program in the place of the raylet."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import ray

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.cluster.ray.local import worker_forks, worker_start
from runtime.cluster.transport.ray_actors import get_actor
from runtime.settings import Settings
from tests.support.machine.other_user import NEEDS_ROOT, USER, folder_of_all, program, run_as_other
from tests.support.polling import until
from tests.support.runtimes import Deploy

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="forks are made on Linux only"),
    pytest.mark.sampled(3, of="module"),
]

WORKER = """
import json, os, sys
print("said", file=sys.stderr)
threads = [line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads:")]
print(json.dumps({
    "arguments": sys.argv[1:], "input": sys.stdin.read(), "folder": os.getcwd(), "variables": dict(os.environ),
    "group": os.getpgid(0) == os.getpid(), "parent": os.getppid(), "threads": threads, "ray": "ray" in sys.modules,
    "main": __name__, "first_folder": sys.path[0], "oom_score": open("/proc/self/oom_score_adj").read(),
    "ignores_children": __import__("signal").getsignal(17) != 0,
}))
"""

STARTER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import worker_start
open("/proc/self/oom_score_adj", "w").write("321")
os._exit(0 if worker_start.fork(sys.argv[2], sys.argv[3:]) else 7)
"""

NOT_FORKED = 7


class Forks(NamedTuple):
    """The program, and what it serves."""

    program: subprocess.Popen[bytes]
    raylet: subprocess.Popen[bytes]
    raylet_socket: str
    worker: Path

    def start(self, *arguments: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Do what the raylet does to start a worker."""
        return start(self.raylet_socket, self.worker, arguments, variables)


def children_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def files_of(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def start(
    raylet_socket: str, worker: Path, arguments: Sequence[str] = (), variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-c", STARTER, str(Path(worker_start.__file__).parent)),
            *(str(worker), f"--raylet-name={raylet_socket}", *arguments),
        ],
        env=environment(variables or {}),
        cwd=worker.parent,
        input="put in",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def environment(added: dict[str, str]) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "RAY_JOB_ID": "01000000", **added}


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The program, as it runs beside a raylet."""
    with forks_in(tmp_path_factory.mktemp("forks")) as found:
        yield found


@contextmanager
def forks_in(folder: Path, *program_command: str, imported: Sequence[str] = ()) -> Iterator[Forks]:
    """The program, with the raylet's socket in that folder.

    Args:
        program_command: Python's arguments that start it.
        imported: what it imports besides.
    """
    raylet = subprocess.Popen(["sleep", "600"])
    raylet_socket = str(folder / "raylet")
    path = worker_start.address_of_forks(raylet_socket)
    program = subprocess.Popen(
        [sys.executable, *(program_command or [worker_forks.__file__]), path, str(raylet.pid), *imported],
        env=environment({}),
    )
    (folder / "worker.py").write_text(WORKER)
    try:
        until(lambda: os.path.exists(path))
        yield Forks(program, raylet, raylet_socket, folder / "worker.py")
    finally:
        for process in (program, raylet):
            process.kill()
            process.wait()


def test_a_fork_is_what_the_raylet_would_have_started(forks: Forks) -> None:
    ended = forks.start("--x=1", "y", variables={"RAY_JOB_ID": "02000000"})
    assert ended.stderr == "said\n"
    worker = json.loads(ended.stdout)
    assert worker.pop("variables").items() >= environment({"RAY_JOB_ID": "02000000"}).items()
    assert worker == {
        "arguments": [f"--raylet-name={forks.raylet_socket}", "--x=1", "y"],
        "input": "put in",
        "folder": str(forks.worker.parent),
        "group": True,
        "parent": forks.program.pid,
        "threads": ["1"],
        "ray": True,
        "main": "__main__",
        "first_folder": str(forks.worker.parent),
        "oom_score": "321\n",
        "ignores_children": False,
    }
    assert ended.returncode == 0


def test_a_fork_has_what_the_deployment_needs_besides_as_far_as_that_is_installed(tmp_path: Path) -> None:
    with forks_in(tmp_path, imported=["no_such_module", "runtime.stores.sql.one_statement"]) as forks:
        forks.worker.write_text("import sys; print('psycopg' in sys.modules)")
        assert forks.start().stdout == "True\n"


def test_each_request_makes_one_fork(forks: Forks) -> None:
    said = [json.loads(forks.start(str(number)).stdout)["arguments"][-1] for number in range(5)]
    assert said == ["0", "1", "2", "3", "4"]
    until(lambda: not children_of(forks.program.pid))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("variables", [{"RAY_verbose": "1"}, {"PYTHONPATH": "/elsewhere"}, {"ANY": "thing"}])
def test_a_worker_with_another_environment_is_not_forked(forks: Forks, variables: dict[str, str]) -> None:
    assert forks.start(variables=variables).returncode == NOT_FORKED
    assert forks.start().returncode == 0


WITH_A_THREAD = f"""
import runpy, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
runpy.run_path({worker_forks.__file__!r}, run_name="__main__")
"""


def test_a_program_with_a_second_thread_forks_no_worker(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with forks_in(tmp_path, "-c", WITH_A_THREAD) as forks:
        assert forks.start().returncode == NOT_FORKED
    assert "no fork of 2 threads" in capfd.readouterr().out


def test_without_the_program_there_is_no_fork(tmp_path: Path) -> None:
    assert start(str(tmp_path / "raylet"), tmp_path / "worker.py").returncode == NOT_FORKED
    # Its socket stays where it was when it ends.
    left = socket.socket(socket.AF_UNIX)
    Path(worker_start.folder_of_forks(str(tmp_path / "raylet"))).mkdir(mode=0o700)
    left.bind(worker_start.address_of_forks(str(tmp_path / "raylet")))
    left.close()
    assert start(str(tmp_path / "raylet"), tmp_path / "worker.py").returncode == NOT_FORKED


def test_the_program_ends_with_the_raylet(tmp_path: Path) -> None:
    with forks_in(tmp_path) as forks:
        assert forks.start().returncode == 0
        forks.raylet.kill()
        assert forks.program.wait(10) == 0


def connect(forks: Forks) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(worker_start.address_of_forks(forks.raylet_socket))
    return connection


def send(connection: socket.socket, request: Any, files: Sequence[int] = (0, 1, 2)) -> None:
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    socket.send_fds(connection, [worker_forks.SIZE.pack(len(data))], files)
    connection.sendall(data)


def test_a_fork_that_is_not_let_go_on_does_nothing(forks: Forks, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "worker.py").write_text(f"open({str(mark)!r}, 'w')")
    request: dict[str, Any] = {
        "file": str(tmp_path / "worker.py"),
        "arguments": [],
        "environment": worker_start.digest_of(environment({})),
        "job": None,
        "folder": "/",
        "oom_score": "0",
    }
    with connect(forks) as gone:
        send(gone, request)
        assert gone.recv(1) == worker_forks.FORKED
    until(lambda: not children_of(forks.program.pid))
    assert not mark.exists()
    with connect(forks) as stays:
        send(stays, request)
        assert stays.recv(1) == worker_forks.FORKED
        stays.sendall(worker_forks.GO_ON)
        until(mark.exists)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("request_", [b"", b"no JSON", b"[]", b"{}", {"file": "x"}, b"1"])
def test_what_is_no_request_is_refused_and_others_are_not(forks: Forks, request_: Any) -> None:
    before = files_of(forks.program.pid)
    with connect(forks) as silent, connect(forks) as wrong, connect(forks) as short, connect(forks) as gone:
        send(wrong, request_)
        short.sendall(b"\x00")
        short.shutdown(socket.SHUT_WR)
        gone.close()
        silent.shutdown(socket.SHUT_WR)
        assert [each.recv(1) for each in (silent, wrong, short)] == [b"", b"", b""]
    assert forks.start().returncode == 0
    assert files_of(forks.program.pid) <= before + 1


LISTENER = """
path, mode, owner = sys.argv[1], int(sys.argv[2], 8), int(sys.argv[3])
folder = os.path.dirname(path)
os.mkdir(folder)
os.chmod(folder, mode)
os.chown(folder, owner, -1)
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(path)
    become_other()
    listener.listen()
    print("listens", flush=True)
    connection, _ = listener.accept()
    print(connection.recv(1 << 20).decode(), flush=True)
"""


@NEEDS_ROOT
@pytest.mark.parametrize(("mode", "owner"), [("0700", USER), ("0777", USER), ("0777", 0), ("0700", 0)])
def test_a_program_of_another_user_is_sent_nothing(mode: str, owner: int) -> None:
    with folder_of_all() as folder:
        raylet_socket = str(folder / "raylet")
        path = worker_start.address_of_forks(raylet_socket)
        with subprocess.Popen(program(LISTENER, path, mode, str(owner)), stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "listens\n"
            started = start(raylet_socket, folder / "worker.py", variables={"OPENAI_API_KEY": "sk-secret"})
            assert started.returncode == NOT_FORKED
            with suppress(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as last:
                # Brings it to its end where nothing has come.
                last.connect(path)
            assert other.stdout.read() == "\n"


def test_no_variable_is_sent_to_the_program(tmp_path: Path) -> None:
    path = worker_start.address_of_forks(str(tmp_path / "raylet"))
    Path(path).parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(path)
        listener.listen()
        started = pool.submit(start, str(tmp_path / "raylet"), tmp_path / "worker.py", (), {"OPENAI_API_KEY": "sk-secret"})
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            (size,) = worker_forks.SIZE.unpack(stream.read(worker_forks.SIZE.size))
            request: bytes = stream.read(size)
        assert started.result().returncode == NOT_FORKED
    assert b"sk-secret" not in request
    assert b"OPENAI_API_KEY" not in request
    assert json.loads(request)["job"] == "01000000"


@NEEDS_ROOT
def test_another_user_gets_no_fork() -> None:
    with folder_of_all() as folder, forks_in(folder) as forks:
        path = worker_start.address_of_forks(forks.raylet_socket)
        asks = "with socket.socket(socket.AF_UNIX) as asking: asking.connect(sys.argv[1]); print(asking.recv(1))"
        # Its folder keeps others out, and so do the credentials of a program that is in it.
        assert "PermissionError" in run_as_other(f"try:\n {asks}\nexcept OSError as error: print(repr(error))", path)
        os.chmod(os.path.dirname(path), 0o777)
        os.chmod(path, 0o777)
        assert run_as_other(asks, path) == "b''\n"


def test_only_its_owner_may_enter_the_folder_of_the_program(forks: Forks) -> None:
    assert stat.S_IMODE(os.stat(worker_start.folder_of_forks(forks.raylet_socket)).st_mode) == 0o700


@ray.remote(num_cpus=0)
class Parent:
    """An actor that says by which program it was started."""

    def command(self) -> str:
        return Path(f"/proc/{os.getppid()}/cmdline").read_text()


@pytest.mark.skipif(Settings().local_ray == "plain", reason="a plain Ray has no such workers")
def test_workers_of_a_local_ray_are_forks(local_ray: str) -> None:
    parent = Parent.remote()  # type: ignore[attr-defined]
    assert worker_forks.__file__ in ray.get(parent.command.remote())
    ray.kill(parent)


@pytest.mark.skipif(Settings().local_ray == "plain", reason="a plain Ray has no such workers")
def test_what_the_actors_of_a_deployment_are_built_of_is_imported_before_the_fork(local_ray: str, tmp_path: Path) -> None:
    program = "import sys; from runtime.cluster.ray.local.worker_forks import prepare; prepare(); print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True).stdout
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="ok")), app_name="forked") as rt:
        rt.run(user_id="ada", session_id="s", message="go").result()
        actors = [get_actor(f"forked/{part}", Settings().namespace) for part in ("session", "runner")]
        there = ray.get([each.__ray_call__.remote(lambda _: list(sys.modules)) for each in actors])
    late = {name for names in there for name in names if name.startswith(("actors.", "runtime."))} - {*printed.split()}
    assert late == set()
