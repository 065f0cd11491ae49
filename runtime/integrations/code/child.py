"""The program that runs a model's code: it starts the code in a process of its own, and ends it.

It imports the standard library only, and is run by its path, with a clean environment. The first line of its input is JSON:

    {"code": …, "folder": …, "timeout_s": …, "memory_bytes": …, "file_bytes": …, "report": …}

Its input stays open as long as the caller lives and wants the run. At its end, whatever the reason, the code's processes are
killed and the folder is deleted. Two lines of JSON go to the file descriptor `report`: one with the code's process group when it
has begun, and one when it has ended. The descriptor is closed when the folder is gone.

There are three processes: the code's, its supervisor, and a guard. Code can stop or kill its supervisor, which is its parent, and
the caller may be killed before it can do anything about that. Then the guard ends both.
"""

from __future__ import annotations

import ast
import contextlib
import json
import linecache
import os
import select
import shutil
import signal
import sys
import time
import traceback
import types
from io import TextIOWrapper

FILE = "<code>"
OUT_OF_MEMORY = b"memory"
OVER = b"over"

GRACE_S = 5.0
"""How long the supervisor may take to end the code when the caller is gone, before the guard ends both."""


def main() -> None:
    """Run the code that the input names."""
    if os.fork():
        # A Ray worker that is ended kills its child processes, and this one has yet to kill the code's. So it is no child of it.
        os._exit(0)
    order = json.loads(sys.stdin.buffer.readline())
    guarded, guarded_in = os.pipe()
    groups, groups_in = os.pipe()
    if supervisor := os.fork():
        for each in (guarded_in, groups_in, order["report"], 1, 2):
            os.close(each)
        guard(supervisor, order["folder"], guarded, groups)
        return
    wakes, wakes_up = os.pipe()
    os.set_blocking(wakes_up, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes_up)
    notes, notes_in = os.pipe()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        # Told by the code's own process: no code runs before its group is known.
        tell(order["report"], {"group": os.getpid()})
        os.write(groups_in, str(os.getpid()).encode())
        for each in (wakes, wakes_up, notes, order["report"], guarded, guarded_in, groups, groups_in):
            os.close(each)
        run(order, notes_in)
        return
    # The caller knows by the end of the outputs that there is no more to come.
    for each in (notes_in, guarded, groups, groups_in, 1, 2):
        os.close(each)
    supervise(child, order, wakes, notes, guarded_in)


def guard(supervisor: int, folder: str, guarded: int, groups: int) -> None:
    """Wait until the supervisor has ended the code. Where it cannot, end both and delete the folder.

    Args:
        guarded: the supervisor writes OVER to it when the code has ended. Its end without that is the supervisor's.
        groups: has the number of the code's process group.
    """
    os.setsid()
    ready = select.select([0, guarded], [], [])[0]
    if guarded not in ready:
        # The caller is gone, or wants no more of the run.
        ready = select.select([guarded], [], [], GRACE_S)[0]
    if not ready or os.read(guarded, len(OVER)) != OVER:
        os.set_blocking(groups, False)
        # Without a number no code has begun.
        with contextlib.suppress(BlockingIOError, ValueError):
            kill(int(os.read(groups, 100)))
        os.kill(supervisor, signal.SIGKILL)
    if os.waitpid(supervisor, 0)[1]:
        wait_for_caller()
        shutil.rmtree(folder, ignore_errors=True)


def supervise(child: int, order: dict, wakes: int, notes: int, guarded: int) -> None:  # type: ignore[type-arg]
    """Wait for the end of the code, of its time or of the caller, and report it."""
    ends_s = time.monotonic() + order["timeout_s"]
    is_late = False
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        left_s = ends_s - time.monotonic()
        ready = select.select([0, wakes], [], [], max(left_s, 0))[0]
        if wakes in ready:
            os.read(wakes, 4096)
        is_late = left_s <= 0
        if is_late or 0 in ready:
            kill(child)
            ended = os.waitpid(child, 0)
            break
    kill(child)
    os.set_blocking(notes, False)
    is_out_of_memory = False
    # A process that the code has left behind may hold the other end open, so there may be nothing to read and no end.
    with contextlib.suppress(BlockingIOError):
        is_out_of_memory = os.read(notes, 100) == OUT_OF_MEMORY
    exit_code = os.waitstatus_to_exitcode(ended[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(guarded, OVER)
    tell(order["report"], {"exit_code": exit_code, "late": is_late, "out_of_memory": is_out_of_memory})
    wait_for_caller()
    shutil.rmtree(order["folder"], ignore_errors=True)


def wait_for_caller() -> None:
    """Wait until the caller has read the files of the run, or is dead."""
    while os.read(0, 4096):
        pass


def tell(report: int, what: dict) -> None:  # type: ignore[type-arg]
    """Write a line of the report. The caller may be gone."""
    with contextlib.suppress(BrokenPipeError):
        os.write(report, json.dumps(what).encode() + b"\n")


def kill(group: int) -> None:
    """Kill the processes of the code. What it has started in another group goes on."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def run(order: dict, notes: int) -> None:  # type: ignore[type-arg]
    """Run the code in this process, and leave it as the code does."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    limit(order["memory_bytes"], order["file_bytes"])
    if isinstance(sys.stdout, TextIOWrapper):
        # What was printed before the process is killed is kept.
        sys.stdout.reconfigure(line_buffering=True)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [FILE]
    sys.path.insert(0, os.getcwd())
    code = order["code"]
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    try:
        execute(code, vars(module))
    except MemoryError as error:
        os.write(notes, OUT_OF_MEMORY)
        leave(error)
    except Exception as error:
        leave(error)
    except KeyboardInterrupt as error:
        leave(error)


def limit(memory_bytes: int, file_bytes: int) -> None:
    """Limit what this process may use, as far as the system can."""
    import resource

    for kind, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def execute(code: str, names: dict[str, object]) -> None:
    """Execute code; the value of an expression at its end is printed, as at Python's prompt."""
    tree = ast.parse(code, FILE)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, FILE, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), FILE, "eval"), names)
        if value is not None:
            print(repr(value))


def leave(error: BaseException) -> None:
    """Print where the code failed, and end this process."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != FILE:
        frames = frames.tb_next
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(Exception):
        traceback.print_exception(type(error), error.with_traceback(frames), frames)
    sys.exit(1)


if __name__ == "__main__":
    main()
