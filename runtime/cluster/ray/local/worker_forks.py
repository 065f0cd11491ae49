"""A program: workers of a local Ray are forked from it.

Most of the CPU time of a worker's start goes into imports. This program makes them once, while the raylet starts. Then it waits
for `worker_start`, which the raylet runs for each worker: that says what the worker is to be, a fork becomes it, and
`worker_start` ends. The fork has the arguments, the environment, the files and a process group as if the raylet had started it,
and shares the memory of all that is imported with the other forks. A raylet knows its worker by the ID among the arguments, and
the worker's process by what it says of itself when it registers.

A worker starts as usual where this program is not there, does not answer, belongs to another user, has more than one thread, or
has another environment: Ray reads variables when it is imported. Only a hash of them is sent. One of the variables is the
worker's job, so a fork begins as a worker for any job, as those do that a raylet starts before there is a job.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NamedTuple

JOB = "RAY_JOB_ID"
ANY_JOB = "ffffffff"

IMPORTED = (
    "runtime.cluster.core.runner_host",
    "runtime.cluster.core.session_host",
    "runtime.cluster.deployment.runner_builder",
    "runtime.cluster.deployment.session_builder",
    "runtime.cluster.deployment_info",
    "runtime.cluster.processes.agent_host",
    "runtime.cluster.transport.hosts",
    "runtime.stores.artifacts",
    "runtime.stores.memory",
    "runtime.stores.sql.sessions",
)
"""What the actors of a deployment import."""

ALSO_IMPORTED = (
    "runtime.cluster.core.runner_host",
    "runtime.cluster.core.session_host",
    "pydantic.v1.fields",
    "ray._common.usage.usage_lib",
    "ray._private.arrow_serialization",
    "starlette.datastructures",
)
"""What Ray itself imports in each worker, as far as it is installed."""

REQUEST_S = 2.0
"""How long a request may take from its begin to its end, in seconds."""

SIZE = struct.Struct("!I")
"""What a request begins with: the number of bytes that follow."""

STANDARD_FILES = (0, 1, 2)
FORKED = b"f"
GO_ON = b"g"


class ForkRequest(NamedTuple):
    """A worker that is to be forked.

    Attributes:
        sender: is waiting for the fork.
        files: the worker's standard input, output and error.
        file: its program.
        arguments: for the program.
        environment: a hash of its variables, see `digest_of`.
        job: the one variable that may be another one.
        folder: where it works.
        oom_score: how soon the system may end it when memory is short, as in /proc/self/oom_score_adj.
    """

    sender: socket.socket
    files: Sequence[int]
    file: str
    arguments: Sequence[str]
    environment: str
    job: str | None
    folder: str
    oom_score: str


@contextmanager
def request_from(sender: socket.socket) -> Iterator[ForkRequest]:
    """A request; its files are closed in the end.

    Raises:
        OSError: the sender has gone, is too slow, or belongs to another user.
        ValueError, TypeError, struct.error: it is no request.
    """
    # Its package imports Ray: not before there is a socket on which requests wait.
    from runtime.cluster.ray.local.worker_start import user_of

    sender.settimeout(REQUEST_S)
    if (user := user_of(sender)) != os.geteuid():
        raise PermissionError(f"a program of user {user}")
    head, files, _, _ = socket.recv_fds(sender, SIZE.size, len(STANDARD_FILES))
    try:
        with sender.makefile("rb") as stream:
            yield ForkRequest(sender, files, **json.loads(stream.read(*SIZE.unpack(head))))
    finally:
        for each in files:
            os.close(each)


def serve(listener: socket.socket, raylet: int, environment: Mapping[str, str]) -> ForkRequest | None:
    """Fork workers.

    Args:
        listener: where requests come.
        raylet: becomes readable when the raylet ends.
        environment: that this program was started with.

    Returns:
        In a fork, what it is to become. In this program None, when the raylet has ended.
    """
    from runtime.cluster.ray.local.worker_start import digest_of

    digest = digest_of(environment)
    while True:
        ready, _, _ = select.select([listener.fileno(), raylet], [], [])
        if raylet in ready:
            return None
        sender, _ = listener.accept()
        # What is wrong with a request is its sender's: it starts the worker itself.
        with suppress(OSError, ValueError, TypeError, struct.error), request_from(sender) as request:
            if request.environment != digest:
                print("no fork for another environment", flush=True)
            elif (threads := number_of_threads()) != 1:
                print(f"no fork of {threads} threads", flush=True)
            elif os.fork() == 0:
                return request._replace(files=[os.dup(each) for each in request.files])
        sender.close()


def number_of_threads() -> int:
    """The number of threads of this program. A fork has one of them only, and locks that the others held stay locked in it."""
    return len(os.listdir("/proc/self/task"))


def may_go_on(sender: socket.socket) -> bool:
    """Tell the sender that this fork is there. False when the sender has gone: then it starts the worker itself."""
    with sender, suppress(OSError):
        # As long as the sender takes: with a limit here, both could give up for the other's sake.
        sender.settimeout(None)
        sender.sendall(FORKED)
        return sender.recv(1) == GO_ON
    return False


def become(request: ForkRequest) -> None:
    """Be the worker, in this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    for standard, given in zip(STANDARD_FILES, request.files, strict=True):
        os.dup2(given, standard)
        os.close(given)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(request.oom_score)
    os.environ[JOB] = request.job or ANY_JOB
    os.chdir(request.folder)
    sys.path.insert(0, os.path.dirname(request.file))
    sys.argv = [request.file, *request.arguments]
    gc.enable()
    runpy.run_path(request.file, run_name="__main__")


def prepare(*imported: str) -> None:
    """Import what workers import.

    Args:
        imported: what they may need besides.

    Raises:
        ImportError: something is not there that all workers need.
    """
    import_module("runtime.cluster.ray.local.worker_start").import_for_workers()
    for name in IMPORTED:
        import_module(name)
    for name in (*ALSO_IMPORTED, *imported):
        with suppress(ImportError):
            import_module(name)
    # What is there now is no garbage in any fork, and looking for some would copy its memory.
    gc.freeze()


def main() -> None:
    """Fork workers for a raylet. The arguments: the socket for requests, the raylet's process ID, and what else to import."""
    path, process_id, *imported = sys.argv[1:]
    # Imported is what any program of this interpreter would find.
    del sys.path[0]
    environment = dict(os.environ)
    os.environ[JOB] = ANY_JOB
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.disable()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # Made here: a folder that is there already is not entered.
        os.mkdir(os.path.dirname(path), 0o700)
        # Requests wait from when the name is there, as long as the imports take.
        listener.bind(unseen := os.path.join(os.path.dirname(path), "n"))
        listener.listen(128)
        os.rename(unseen, path)
        raylet = os.pidfd_open(int(process_id))
        prepare(*imported)
        request = serve(listener, raylet, environment)
        os.close(raylet)
    if request is not None and may_go_on(request.sender):
        become(request)


if __name__ == "__main__":
    main()
