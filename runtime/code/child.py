"""The program that runs a model's code: it starts the code in a process of its own, and ends it.

It imports the standard library only, and is run by its path, with a clean environment. The first line of its input is JSON:

    {"code": …, "folder": …, "timeout_s": …, "memory_bytes": …, "file_bytes": …, "report": …}

Its input stays open as long as the caller lives and wants the run. At its end, whatever the reason, the code's processes are
killed and the folder is deleted. Two lines of JSON go to the file descriptor `report`: one with the code's process group when it
has begun, and one when it has ended. The descriptor is closed when the folder is gone.
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


def main() -> None:
    """Run the code that the input names."""
    if os.fork():
        # A Ray worker that is ended kills its child processes, and this one has yet to kill the code's. So it is no child of it.
        os._exit(0)
    order = json.loads(sys.stdin.buffer.readline())
    wakes, wakes_up = os.pipe()
    os.set_blocking(wakes_up, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes_up)
    notes, notes_in = os.pipe()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (wakes, wakes_up, notes, order["report"]):
            os.close(each)
        run(order, notes_in)
        return
    os.close(notes_in)
    tell(order["report"], {"group": child})
    # The caller knows by their end that there is no more output.
    for output in (1, 2):
        os.close(output)
    supervise(child, order, wakes, notes)


def supervise(child: int, order: dict, wakes: int, notes: int) -> None:  # type: ignore[type-arg]
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
    tell(order["report"], {"exit_code": exit_code, "late": is_late, "out_of_memory": is_out_of_memory})
    # The files stay until the caller has read them, or is dead.
    while os.read(0, 4096):
        pass
    shutil.rmtree(order["folder"], ignore_errors=True)


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
    os.setsid()
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
