"""The program from which workers are forked, with a program in the place of the raylet."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import ray

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.cluster.ray import worker_forks
from runtime.cluster.ray.worker_forks import FOLDERS, KEPT
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

ALONE = """
import os, sys
print("alone", *sys.argv[1:], os.environ.get("ANY"), os.listdir("/proc/self/fd"))
"""
"""What a worker is without a fork."""


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
    alone = worker.with_name("alone.py")
    alone.write_text(ALONE)
    return subprocess.run(
        [
            *(worker_forks.SHELL, worker_forks.SCRIPT, sys.executable, str(alone), str(worker)),
            *("--language=PYTHON", f"--raylet-name={raylet_socket}", *arguments),
        ],
        env=environment(variables or {}),
        cwd=worker.parent,
        input="put in",
        preexec_fn=set_oom_score,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def set_oom_score() -> None:
    Path("/proc/self/oom_score_adj").write_text("321")


FORKED, BY_FORKS, BY_SHELL = "a fork", "alone, from the program of forks", "alone, from the shell"


def how(started: subprocess.CompletedProcess[str]) -> str:
    """How a worker was started. The program of forks ends the shell when it has started one."""
    if not started.stdout.startswith("alone "):
        assert started.returncode == -signal.SIGKILL, started
        return FORKED
    assert started.returncode in (0, -signal.SIGKILL), started
    return BY_FORKS if started.returncode else BY_SHELL


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
    path = worker_forks.folder_of_forks(raylet_socket)
    program = subprocess.Popen(
        [sys.executable, *(program_command or [worker_forks.__file__]), path, str(raylet.pid), str(folder / "logs"), *imported],
        env=environment({}),
    )
    (folder / "worker.py").write_text(WORKER)
    try:
        until(lambda: os.path.exists(os.path.join(path, worker_forks.ASKED)))
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
    assert how(ended) == FORKED


def test_a_fork_has_what_the_deployment_needs_besides_as_far_as_that_is_installed(tmp_path: Path) -> None:
    with forks_in(tmp_path, imported=["no_such_module", "psycopg"]) as forks:
        forks.worker.write_text("import sys; print('psycopg' in sys.modules)")
        assert forks.start().stdout == "True\n"


def test_each_request_makes_one_fork(forks: Forks) -> None:
    said = [json.loads(forks.start(str(number)).stdout)["arguments"][-1] for number in range(5)]
    assert said == ["0", "1", "2", "3", "4"]
    until(lambda: not children_of(forks.program.pid))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("variables", [{"ANY": "thing"}, {"RAY_verbose": "1"}, {"PYTHONPATH": "/elsewhere"}])
def test_a_worker_with_another_environment_has_a_python_of_its_own(forks: Forks, variables: dict[str, str]) -> None:
    started = forks.start("y", variables=variables)
    assert how(started) == BY_FORKS
    arguments = f"{forks.worker} --language=PYTHON --raylet-name={forks.raylet_socket} y {variables.get('ANY')}"
    assert started.stdout == f"alone {arguments} ['0', '1', '2', '3']\n"
    assert how(forks.start()) == FORKED


def test_of_workers_that_have_ended_the_files_of_the_latest_stay(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    folders = [logs, *(logs / name for name in FOLDERS if name)]
    for folder in folders:
        folder.mkdir()

    def files_of(process: int, changed_s: float) -> list[Path]:
        """The files of a worker, as Ray and we name them."""
        worker = f"{process:056x}"
        names = [f"worker-{worker}-01000000-{process}.out", f"worker-{worker}-ffffffff-{process}.err", "support.pay%2Fer"]
        made = [logs / names[0], logs / "old" / names[1], logs / f"python-core-worker-{worker}_{process}.log"]
        made += [
            logs / "events" / f"event_CORE_WORKER_{process}.log",
            logs / "export_events" / f"event_EXPORT_TASK_{process}.log",
        ]
        made += [logs / "raygrove" / f"{names[2]}.{process}.log", logs / "raygrove" / f"support.runner.{process}.log.1"]
        for path in made:
            path.touch()
            os.utime(path, (changed_s, changed_s))
        return made

    # No process has a number above that: the kernel's own limit.
    long_ago = [files_of(2**22 + number, number) for number in range(KEPT + 3)]
    stay = [logs / name for name in ("raylet.out", "gcs_server.err", "log_monitor.log", "runtime_env_setup-01000000.log")]
    for path in stay:
        path.touch()
    stay += [*files_of(os.getpid(), 0.0), *(path for files in long_ago[3:] for path in files)]
    with forks_in(tmp_path) as forks:
        assert how(forks.start()) == FORKED
        until(lambda: not any(path.exists() for files in long_ago[:3] for path in files))
    assert {path for folder in folders for path in folder.iterdir() if path.is_file()} == set(stay)


def test_a_worker_with_a_runtime_environment_has_a_python_of_its_own(forks: Forks) -> None:
    context = json.dumps({"env_vars": {"WHERE": "here"}})
    assert how(forks.start(f"{worker_forks.CONTEXT}{context}")) == BY_FORKS


WITH_A_THREAD = f"""
import runpy, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
runpy.run_path({worker_forks.__file__!r}, run_name="__main__")
"""


def test_a_program_with_a_second_thread_forks_no_worker(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with forks_in(tmp_path, "-c", WITH_A_THREAD) as forks:
        assert how(forks.start()) == BY_FORKS
    assert "no fork of 2 threads" in capfd.readouterr().out


def test_without_the_program_a_worker_has_a_python_of_its_own(tmp_path: Path) -> None:
    started = start(str(tmp_path / "raylet"), tmp_path / "worker.py")
    assert how(started) == BY_SHELL
    assert started.stdout.endswith(" None ['0', '1', '2', '3']\n")
    with forks_in(tmp_path) as forks:
        assert how(forks.start()) == FORKED
    # Its files stay where they were when it ends.
    assert how(forks.start()) == BY_SHELL


def test_a_shell_that_waits_when_the_program_ends_starts_the_worker(tmp_path: Path) -> None:
    with forks_in(tmp_path) as forks, ThreadPoolExecutor() as pool:
        forks.program.send_signal(signal.SIGSTOP)
        started = pool.submit(forks.start)
        until(lambda: waiting_shells(forks.raylet_socket) != [])
        forks.program.kill()
        assert how(started.result()) == BY_SHELL


def waiting_shells(raylet_socket: str) -> list[int]:
    """The shells for workers of a raylet that wait for the program of forks."""
    return [int(each.name) for each in Path("/proc").glob("[0-9]*") if _waits(each, raylet_socket)]


def _waits(process: Path, raylet_socket: str) -> bool:
    with suppress(OSError):
        command = (process / "cmdline").read_text().split("\0")
        return command[1:2] == [worker_forks.SCRIPT] and raylet_socket in " ".join(command) and _reads_of_pipe(process)
    return False


def _reads_of_pipe(process: Path) -> bool:
    return (process / "wchan").read_text().endswith("pipe_read")


def test_a_worker_whose_output_is_a_socket_has_a_python_of_its_own(forks: Forks) -> None:
    ours, its = socket.socketpair()
    with ours, its, ours.makefile() as said:
        command = [worker_forks.SHELL, worker_forks.SCRIPT, "/bin/echo", f"--raylet-name={forks.raylet_socket}"]
        subprocess.run(command, stdout=its.fileno(), check=True, timeout=60)
        assert said.readline() == f"--raylet-name={forks.raylet_socket}\n"


def test_many_shells_at_once_are_each_known_by_their_whole_process_id(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [*range(10_000, 11_000)]
    asked, asking = os.pipe()
    raylet, end_of_raylet = os.pipe()
    found: list[int] = []

    def start(process: int, environment: object) -> None:
        found.append(process)
        if len(found) == len(named):
            os.close(end_of_raylet)

    monkeypatch.setattr(worker_forks, "start", start)
    # More than is read at once.
    assert os.write(asking, b"".join(b"%d\n" % each for each in named)) > select.PIPE_BUF
    assert worker_forks.serve(asked, raylet, os.devnull, {}) is None
    assert found == named
    for each in (asked, asking, raylet):
        os.close(each)


def test_the_program_ends_with_the_raylet(tmp_path: Path) -> None:
    with forks_in(tmp_path) as forks:
        assert how(forks.start()) == FORKED
        forks.raylet.kill()
        assert forks.program.wait(10) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("asked", [b"1\n", b"\n", b"no number\n", b"-1\n", b"999999999\n", b"\xff\0\n"])
def test_what_is_no_shell_for_a_worker_is_left_alone(forks: Forks, asked: bytes) -> None:
    before = files_of(forks.program.pid)
    with subprocess.Popen(["sleep", "600"]) as other:
        ask(forks, asked + b"%d\n" % other.pid)
        assert how(forks.start()) == FORKED
        assert other.poll() is None
        other.kill()
    assert files_of(forks.program.pid) == before


def ask(forks: Forks, what: bytes) -> None:
    with open(os.path.join(worker_forks.folder_of_forks(forks.raylet_socket), worker_forks.ASKED), "r+b", buffering=0) as asked:
        asked.write(what)


def test_a_shell_that_waits_and_is_named_twice_has_one_worker_with_the_files_that_it_was_given(
    forks: Forks, tmp_path: Path
) -> None:
    (tmp_path / "worker.py").write_text("import sys; open('mark', 'a').write(sys.stdin.read())")
    forks.program.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        started = pool.submit(start, forks.raylet_socket, tmp_path / "worker.py")
        until(lambda: waiting_shells(forks.raylet_socket) != [])
        for shell in waiting_shells(forks.raylet_socket):
            ask(forks, f"{shell}\n".encode())
        forks.program.send_signal(signal.SIGCONT)
        assert how(started.result()) == FORKED
    # The second request has been read when this worker is there.
    assert how(start(forks.raylet_socket, tmp_path / "worker.py")) == FORKED
    assert (tmp_path / "mark").read_text() == "put in" * 2


MADE_BY_OTHER = """
folder, mode, owner = sys.argv[1], int(sys.argv[2], 8), int(sys.argv[3])
os.mkdir(folder)
os.chmod(folder, mode)
os.chown(folder, owner, -1)
asked = os.path.join(folder, "asked")
os.umask(0)
if owner:
    become_other()
os.mkfifo(asked, 0o666)
os.chown(asked, int(sys.argv[4]), -1)
file = os.open(asked, os.O_RDWR | os.O_NONBLOCK)
print("waits", flush=True)
sys.stdin.read()
try:
    print(os.read(file, 100), flush=True)
except BlockingIOError:
    print("nothing", flush=True)
"""


@NEEDS_ROOT
@pytest.mark.parametrize(("owner", "owner_of_pipe"), [(USER, USER), (0, USER)])
def test_a_program_of_another_user_is_told_nothing(owner: int, owner_of_pipe: int) -> None:
    with folder_of_all() as folder:
        raylet_socket = str(folder / "raylet")
        command = program(MADE_BY_OTHER, worker_forks.folder_of_forks(raylet_socket), "0777", str(owner), str(owner_of_pipe))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "waits\n"
            assert how(start(raylet_socket, folder / "worker.py")) == BY_SHELL
            assert other.communicate()[0] == "nothing\n"


@NEEDS_ROOT
def test_another_user_gets_no_fork(capfd: pytest.CaptureFixture[str]) -> None:
    with folder_of_all() as folder, forks_in(folder) as forks:
        path = worker_forks.folder_of_forks(forks.raylet_socket)
        asks = """
import time
try:
    open(sys.argv[1] + "/asked", "r+b", buffering=0).write(b"%d\\n" % os.getpid())
    time.sleep(2)
except OSError as error:
    print(repr(error))
"""
        # Its folder keeps others out, and so does the user of the shell where others can get in.
        assert "PermissionError" in run_as_other(asks, path)
        os.chmod(path, 0o777)
        os.chmod(os.path.join(path, worker_forks.ASKED), 0o666)
        assert how(forks.start()) == FORKED
        assert run_as_other(asks, path) == ""
        assert f"a program of user {USER}" in capfd.readouterr().out


def test_only_its_owner_may_enter_the_folder_of_the_program(forks: Forks) -> None:
    folder = worker_forks.folder_of_forks(forks.raylet_socket)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(folder, worker_forks.ASKED)).st_mode) == 0o600


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
    program = "import sys; from runtime.cluster.ray.worker_forks import prepare; prepare(); print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True).stdout
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="ok")), app_name="forked") as rt:
        rt.run(user_id="ada", session_id="s", message="go").result()
        actors = [get_actor(f"forked/{part}", Settings().namespace) for part in ("session", "runner")]
        there = ray.get([each.__ray_call__.remote(lambda _: list(sys.modules)) for each in actors])
    late = {name for names in there for name in names if name.startswith(("actors.", "runtime."))} - {*printed.split()}
    assert late == set()
