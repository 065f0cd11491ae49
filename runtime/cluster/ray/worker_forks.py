"""A program: workers of a local Ray are forked from it.

Most of the CPU time of a worker's start goes into imports. This program makes them once, while the raylet starts. Then it waits
for `worker_start.sh`, which the raylet runs for each worker, and which tells nothing but its process ID. All else is read of that
process: a fork becomes the worker, with the arguments, the environment, the files and a process group as if the raylet had
started it, and shares the memory of all that is imported with the other forks. A raylet knows its worker by the ID among the
arguments, and the worker's process by what it says of itself when it registers.

Ray's own program starts a worker in a Python of its own when it needs another environment than this program has, since Ray reads
variables when it is imported; when its runtime environment asks for something; or when this program has more than one thread. One
of the variables is the worker's job, so a fork begins as a worker for any job, as those do that a raylet starts before there is a
job.

What other users do in the folder of the raylet changes nothing: only its owner may enter this program's folder, and only a shell
of its own user gets a worker.
"""

from __future__ import annotations

import gc
import json
import os
import re
import runpy
import select
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NamedTuple

CONTEXT = "--serialized-runtime-env-context="
LANGUAGE = "--language="

JOB = "RAY_JOB_ID"
ANY_JOB = "ffffffff"

IMPORTED = (
    "runtime.cluster.core.limiter",
    "runtime.cluster.core.runner",
    "runtime.cluster.core.session",
    "runtime.cluster.processes.agent_host",
    "runtime.cluster.transport.clients",
    "runtime.cluster.host",
    "runtime.stores.artifacts",
    "runtime.stores.memory",
    "runtime.stores.sql.sessions",
)
"""What the actors of a deployment import."""

ALSO_IMPORTED = (
    "pydantic.v1.fields",
    "ray._common.usage.usage_lib",
    "ray._private.arrow_serialization",
    "starlette.datastructures",
)
"""What Ray itself imports in each worker, as far as it is installed."""

ASKED, LIVES = "asked", "lives"
"""Files in the folder of this program: a pipe that takes process IDs, and one that ends when this program does."""

SHELL = "/bin/sh"
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_start.sh")

OBJECTS = 10_000
"""New objects after which Python looks for garbage among them; by default 700, a tenth of the time that imports take."""

ENDED_S = 5.0
"""How long a shell that is ended may take for it, in seconds."""

STANDARD_FILES = (0, 1, 2)
FILES_OF_SHELL = (7, 8, 9)
"""Where the shell has the standard files of its worker."""


class AskedWorker(NamedTuple):
    """A worker that is to be started.

    Attributes:
        command: starts it without a fork.
        environment: its variables.
        files: its standard input, output and error.
        folder: where it works.
        oom_score: how soon the system may end it when memory is short, as in /proc/self/oom_score_adj.
    """

    command: Sequence[str]
    environment: Mapping[bytes, bytes]
    files: Sequence[int]
    folder: str
    oom_score: str


class WorkerFork(NamedTuple):
    """What a fork is to become: a worker's program and its arguments. Without a program it runs the command."""

    asked: AskedWorker
    program: str = ""
    arguments: Sequence[str] = ()


def folder_of_forks(raylet: str) -> str:
    """The folder in which this program is asked for the workers of a raylet. Only its owner may enter it.

    Args:
        raylet: the raylet's own socket. Ray lets every user of the machine change the folder of that.
    """
    return f"{raylet}.f"


def worker_program(given: Sequence[str]) -> list[str] | None:
    """The file of a worker, and its arguments; None where Ray's own program has to start it.

    Args:
        given: the arguments that a raylet starts that program, `setup_worker.py`, with.
    """
    passed = [each for each in given if not each.startswith((CONTEXT, LANGUAGE))]
    languages = [each.removeprefix(LANGUAGE) for each in given if each.startswith(LANGUAGE)]
    contexts = [each.removeprefix(CONTEXT) for each in given if each.startswith(CONTEXT)]
    context: dict[str, object] = json.loads(contexts[-1]) if contexts and contexts[-1] else {}
    python = context.pop("py_executable", None) or sys.executable
    is_plain = languages == ["PYTHON"] and python == sys.executable and not any(context.values())
    return passed if is_plain and passed and not passed[0].startswith("-") else None


def parts_of(process: int | str, name: str) -> list[bytes]:
    """The arguments of a process, its `cmdline`, or the variables that it was started with, its `environ`. Raises OSError."""
    with open(f"/proc/{process}/{name}", "rb") as file:
        return file.read().split(b"\0")[:-1]


def environment_of(process: int | str) -> dict[bytes, bytes]:
    """The variables that a process was started with. Raises OSError."""
    return {name: value for name, _, value in (each.partition(b"=") for each in parts_of(process, "environ"))}


def users_of(process: int) -> set[int]:
    """The user of a process: several where it has the rights of another one. Raises OSError."""
    with open(f"/proc/{process}/status") as status:
        return next({int(each) for each in line.split()[1:]} for line in status if line.startswith("Uid:"))


@contextmanager
def asked_by(process: int) -> Iterator[AskedWorker]:
    """The worker that the shell with that process ID asks for; its files are closed in the end.

    Raises:
        OSError: it has ended, or belongs to another user.
        ValueError: it is no such shell.
    """
    if (users := users_of(process)) != {os.geteuid()}:
        raise PermissionError(f"a program of user {max(users)}")
    shell, script, *command = map(os.fsdecode, parts_of(process, "cmdline"))
    if (shell, script) != (SHELL, SCRIPT):
        raise ValueError(f"{shell} {script}")
    with open(f"/proc/{process}/oom_score_adj") as score:
        oom_score = score.read()
    files: list[int] = []
    try:
        for each in FILES_OF_SHELL:
            files.append(_opened_again(process, each))
        yield AskedWorker(command, environment_of(process), files, os.readlink(f"/proc/{process}/cwd"), oom_score)
    finally:
        for each in files:
            os.close(each)


def _opened_again(process: int, file: int) -> int:
    """An open file of a process, opened in this one for the same. Raises OSError."""
    with open(f"/proc/{process}/fdinfo/{file}") as info:
        flags = next(int(line.split()[1], 8) for line in info if line.startswith("flags:"))
    return os.open(f"/proc/{process}/fd/{file}", flags & (os.O_ACCMODE | os.O_APPEND))


def fork_of(asked: AskedWorker, environment: Mapping[bytes, bytes]) -> WorkerFork:
    """The program that a fork becomes for a worker, or the command that it runs."""
    _, _, *given = asked.command
    worker = worker_program(given)
    if worker is None:
        return WorkerFork(asked)
    if _without_job(asked.environment) != _without_job(environment):
        print("no fork for another environment", flush=True)
        return WorkerFork(asked)
    if (threads := number_of_threads()) != 1:
        print(f"no fork of {threads} threads", flush=True)
        return WorkerFork(asked)
    return WorkerFork(asked, worker[0], worker[1:])


def _without_job(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in environment.items() if name != os.fsencode(JOB)}


def serve(asked: int, raylet: int, logs: str, environment: Mapping[bytes, bytes]) -> WorkerFork | None:
    """Start workers. Each time the files beside Ray's logs go that are of workers which ended long ago.

    Args:
        asked: where process IDs come.
        raylet: becomes readable when the raylet ends.
        logs: the folder of Ray's logs.
        environment: that this program was started with.

    Returns:
        In a fork, what it is to become. In this program None, when the raylet has ended.
    """

    # As much as is read at once may end within a process ID.
    rest = b""
    while True:
        ready, _, _ = select.select([asked, raylet], [], [])
        if raylet in ready:
            return None
        *processes, rest = (rest + os.read(asked, select.PIPE_BUF)).split(b"\n")
        for each in processes:
            # What is wrong with a process is its own fault. A raylet asks again for a worker that does not come.
            try:
                if (fork := start(int(each), environment)) is not None:
                    return fork
                remove_files(logs)
            except (OSError, ValueError) as error:
                print(f"no worker for process {each!r}: {error!r}", flush=True)


def start(process: int, environment: Mapping[bytes, bytes]) -> WorkerFork | None:
    """Fork a worker in the place of a shell, and end that. Returns in the fork what it is to become, here None.

    Raises:
        OSError, ValueError: see `asked_by`.
    """
    shell = os.pidfd_open(process)
    try:
        with asked_by(process) as asked:
            fork = fork_of(asked, environment)
            if os.fork() == 0:
                return fork._replace(asked=asked._replace(files=[os.dup(each) for each in asked.files]))
        signal.pidfd_send_signal(shell, signal.SIGKILL)
        # It has one worker, however often it is named.
        select.select([shell], [], [], ENDED_S)
    finally:
        os.close(shell)
    return None


KEPT = 10
"""Ended workers whose files stay."""

FOLDERS = ("", "old", "events", "export_events", "raygrove")
"""Where they are: in Ray's folder of logs, and in these below it."""

OF_PROCESS = re.compile(
    r"(?:worker-|python-core-|event_CORE_WORKER_|event_EXPORT_).*?(?P<ray>\d+)\.(?:log|out|err)(?:\.\d+)?"
    r"|[\w.%@+,= -]+\.(?P<own>\d+)\.log(?:\.\d+)?"
)
"""Names of files that one process writes: Ray's, and ours in `raygrove`. They end with its ID."""


def remove_files(logs: str) -> None:
    """Remove the files that ended workers have left beside Ray's logs, but for the latest, to be read when one has failed.

    Ray itself removes none: each worker leaves five, and another for each agent that has logged in it. On a cluster they all
    stay: there they are Ray's, and something may collect them. Errors are passed over.

    Args:
        logs: the folder of Ray's logs.
    """
    files: dict[int, list[str]] = {}
    latest: dict[int, float] = {}
    for process, file, changed_s in _files(logs):
        files.setdefault(process, []).append(file)
        latest[process] = max(changed_s, latest.get(process, 0.0))
    ended = sorted((process for process in files if not _is_running(process)), key=lambda process: latest[process])
    for process in ended[:-KEPT]:
        for file in files[process]:
            with suppress(OSError):
                os.unlink(file)


def _files(logs: str) -> Iterator[tuple[int, str, float]]:
    """Each file of a process: the process's ID, its path, and when it was changed last."""
    for folder in FOLDERS:
        with suppress(OSError), os.scandir(os.path.join(logs, folder)) as entries:
            for entry in entries:
                found = OF_PROCESS.fullmatch(entry.name)
                number = found["own" if folder == "raygrove" else "ray"] if found is not None else None
                if number is not None:
                    with suppress(OSError):
                        yield int(number), entry.path, entry.stat(follow_symlinks=False).st_mtime


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # It is of another user, or what looks like its ID is none.
        return True
    return True


def number_of_threads() -> int:
    """The number of threads of this program. A fork has one of them only, and locks that the others held stay locked in it."""
    return len(os.listdir("/proc/self/task"))


def become(fork: WorkerFork) -> None:
    """Be the worker, in this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    asked = fork.asked
    for standard, given in zip(STANDARD_FILES, asked.files, strict=True):
        os.dup2(given, standard)
        os.close(given)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(asked.oom_score)
    os.chdir(asked.folder)
    if not fork.program:
        os.execve(asked.command[0], list(asked.command), dict(asked.environment))
    os.environ[JOB] = os.fsdecode(asked.environment.get(os.fsencode(JOB), b"")) or ANY_JOB
    sys.path.insert(0, os.path.dirname(fork.program))
    sys.argv = [fork.program, *fork.arguments]
    gc.enable()
    runpy.run_path(fork.program, run_name="__main__")


def prepare(*imported: str) -> None:
    """Import what workers import.

    Args:
        imported: what they may need besides.

    Raises:
        ImportError: something is not there that all workers need.
    """
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
    for name in ("ray", *IMPORTED):
        import_module(name)
    for name in (*ALSO_IMPORTED, *imported):
        with suppress(ImportError):
            import_module(name)
    # What is there now is no garbage in any fork, and looking for some would copy its memory.
    gc.freeze()


def main() -> None:
    """Start workers for a raylet. The arguments: this program's folder, the raylet's process ID, the folder of Ray's logs, and
    what else to import."""
    folder, process_id, logs, *imported = sys.argv[1:]
    # Imported is what any program of this interpreter would find.
    del sys.path[0]
    environment = environment_of("self")
    os.environ[JOB] = ANY_JOB
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.disable()
    # Made here: a folder that is there already is not entered.
    os.mkdir(folder, 0o700)
    lives, end_of_life = os.pipe()
    os.symlink(f"/proc/{os.getpid()}/fd/{lives}", os.path.join(folder, LIVES))
    os.mkfifo(path := os.path.join(folder, ASKED), 0o600)
    # Shells wait from now on, as long as the imports take.
    asked = os.open(path, os.O_RDWR)
    raylet = os.pidfd_open(int(process_id))
    prepare(*imported)
    fork = serve(asked, raylet, logs, environment)
    for each in (lives, end_of_life, asked, raylet):
        os.close(each)
    if fork is not None:
        become(fork)


if __name__ == "__main__":
    main()
