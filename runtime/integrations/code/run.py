"""One run of a model's code, seen from the process that asks for it: its files go in, its output and its files come out."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from actors.errors.user_code import in_thread

PROGRAM = Path(__file__).with_name("child.py")

GRACE_S = 5.0
"""How long the program that runs the code may take to start and to end it, beyond the code's own time."""

MAX_ENTRIES = 10_000
"""How many files and folders of a run are looked at."""

REPORTS = 2
"""Lines of the report: that the code has begun, and that it has ended."""

AFTER_END_S = 0.2
"""How long output is read after the code has ended: a process that it has left behind may hold it open."""


@dataclass(frozen=True)
class CodeLimits:
    """What one run may use.

    Attributes:
        timeout_s: time.
        memory_bytes: address space of each process.
        output_chars: of each of stdout and stderr that are kept.
        files: how many of the files that it writes are kept.
        file_bytes: the size of each file.
    """

    timeout_s: float
    memory_bytes: int
    output_chars: int
    files: int
    file_bytes: int


@dataclass
class CodeResult:
    """What came of a run.

    Attributes:
        exit_code: of the process; negative: the signal that has ended it.
        is_late: it has taken longer than it may.
        is_out_of_memory: it has needed more memory than it may.
        files: those that it has written or changed, by their paths in its folder.
        left_out: paths of files that are too many, or too large.
    """

    stdout: str
    stderr: str
    exit_code: int
    is_late: bool
    is_out_of_memory: bool
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


async def run_python(code: str, files: Mapping[str, bytes], env: Mapping[str, str], limits: CodeLimits) -> CodeResult:
    """Run code in a process of its own, which ends with the task that awaits it, and with this process.

    Args:
        files: the files that its folder has, by their paths in it.
        env: its environment, beside what every program needs.
    """
    run = _Run(code, files, env, limits)
    try:
        return await in_thread(run.whole)
    finally:
        run.end_run()


class _Run:
    def __init__(self, code: str, files: Mapping[str, bytes], env: Mapping[str, str], limits: CodeLimits) -> None:
        self._code = code
        self._files = files
        self._env = env
        self._limits = limits
        self._lock = threading.Lock()
        self._lifeline: IO[bytes] | None = None
        self._is_over = False
        # Closed at the end, which wakes the thread that waits for output.
        self._awake, self._wakes = os.pipe()

    def end_run(self) -> None:
        """End the run, wherever it is. Its folder is deleted."""
        with self._lock:
            if not self._is_over:
                os.close(self._wakes)
            self._is_over = True
            if self._lifeline is not None:
                with contextlib.suppress(OSError):
                    self._lifeline.close()

    def whole(self) -> CodeResult:
        """Run the code from its start to its end."""
        folder = Path(tempfile.mkdtemp(prefix="raygrove-python-"))
        try:
            process, report = self._start(folder)
            with process:
                output = _Output(process, report, self._awake, self._limits)
                try:
                    result = output.read()
                    collect(folder / "work", self._files, self._limits, result)
                    return result
                finally:
                    self.end_run()
                    output.end_program()
                    os.close(report)
        finally:
            os.close(self._awake)
            # Of a run whose processes had to be killed. Usually it is gone already.
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
        work, home = folder / "work", folder / "home"
        for each in (work, home):
            each.mkdir()
        for name, data in self._files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(data)
        order = {"code": self._code, "folder": str(folder), "timeout_s": self._limits.timeout_s}
        order |= {"memory_bytes": self._limits.memory_bytes, "file_bytes": self._limits.file_bytes}
        report, report_in = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-X", "utf8", str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=work,
                env={**_environment(home), **self._env},
                pass_fds=(report_in,),
                start_new_session=True,
            )
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(report_in)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps({**order, "report": report_in}).encode() + b"\n")
            process.stdin.flush()
        with self._lock:
            self._lifeline = process.stdin
        if self._is_over:
            self.end_run()
        return process, report


def collect(work: Path, given: Mapping[str, bytes], limits: CodeLimits, result: CodeResult) -> None:
    """Read the files that the code has written or changed.

    A link is no file: it may lead anywhere. Only files that are kept, or were given, are read, however many there are.
    """
    files, is_all = _files_in(work)
    for name, entry in sorted(files.items()):
        # At the limit it has been cut, but for one that was given in this size.
        size = entry.stat(follow_symlinks=False).st_size
        is_cut = size >= limits.file_bytes and size != len(given.get(name, b""))
        if is_cut or (name not in given and len(result.files) >= limits.files):
            result.left_out.append(name)
        elif (data := Path(entry.path).read_bytes()) == given.get(name):
            continue
        elif len(result.files) < limits.files:
            result.files[name] = data
        else:
            result.left_out.append(name)
    if not is_all:
        result.left_out.insert(0, f"what comes after the first {MAX_ENTRIES:,} files and folders")


def _files_in(work: Path) -> tuple[dict[str, os.DirEntry[str]], bool]:
    """The files in a folder and in those below it, by their paths from there, and whether these are all."""
    files: dict[str, os.DirEntry[str]] = {}
    folders = [(str(work), "")]
    seen = 0
    while folders:
        folder, prefix = folders.pop()
        # The code may have made a path that is too long, or a folder that may not be read.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                seen += 1
                if seen > MAX_ENTRIES:
                    return files, False
                if entry.is_file(follow_symlinks=False):
                    files[prefix + entry.name] = entry
                elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                    folders.append((entry.path, f"{prefix}{entry.name}/"))
    return files, True


def _environment(home: Path) -> dict[str, str]:
    """The environment that every program needs, and nothing of this process: keys of models are in its environment."""
    folders = [str(Path(sys.executable).parent), os.defpath]
    # Libraries for numbers would reserve memory for a thread on each core.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        "PATH": os.pathsep.join(folders),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        **threads,
    }


class _Kept:
    """The beginning and the end of an output, in bytes that are enough for the characters to keep."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self._most = 4 * chars
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = self._most - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * self._most:
            self._dropped += len(self._tail) - self._most
            del self._tail[: -self._most]

    def text(self) -> str:
        head, tail = self._head.decode(errors="replace"), self._tail.decode(errors="replace")
        whole = head + tail
        if not self._dropped and len(whole) <= self._chars:
            return whole
        half = self._chars // 2
        left_out = len(whole) - 2 * half + self._dropped
        return f"{head[:half]}\n… {left_out} characters left out …\n{whole[-half:]}"


class _Output:
    """Reads what a run prints, and its report."""

    def __init__(self, process: subprocess.Popen[bytes], report: int, awake: int, limits: CodeLimits) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._outputs = {process.stdout.fileno(): _Kept(limits.output_chars), process.stderr.fileno(): _Kept(limits.output_chars)}
        self._report = report
        self._awake = awake
        self._supervisors = process.pid
        self._reported = b""
        self._ends_s = time.monotonic() + limits.timeout_s + GRACE_S

    def read(self) -> CodeResult:
        """Return what was printed, and how the code has ended.

        Raises:
            RuntimeError: the program that runs the code was killed.
        """
        is_closed = False
        with selectors.DefaultSelector() as selector:
            for each in (*self._outputs, self._report, self._awake):
                selector.register(each, selectors.EVENT_READ)
            while len(selector.get_map()) > 1 and (ready := selector.select(max(self._ends_s - time.monotonic(), 0))):
                for key, _ in ready:
                    data = os.read(key.fd, 64 * 1024)
                    is_read = not data
                    if key.fd == self._awake:
                        self._ends_s = min(self._ends_s, time.monotonic() + GRACE_S)
                    elif key.fd == self._report:
                        self._reported += data
                        is_closed = is_closed or not data
                        is_read = is_read or self._reported.count(b"\n") == REPORTS
                        self._ends_s = time.monotonic() + AFTER_END_S if is_read else self._ends_s
                    else:
                        self._outputs[key.fd].add(data)
                    if is_read:
                        selector.unregister(key.fd)
        stdout, stderr = (output.text() for output in self._outputs.values())
        if (ended := self._line(REPORTS)) is not None:
            return CodeResult(stdout, stderr, ended["exit_code"], bool(ended["late"]), bool(ended["out_of_memory"]))
        if is_closed:
            raise RuntimeError("the process that runs the code was killed, for example since the machine had no memory left")
        # The code has stopped the program that ends it.
        return CodeResult(stdout, stderr, -signal.SIGKILL, is_late=True, is_out_of_memory=False)

    def end_program(self) -> None:
        """Wait until the program that runs the code has deleted the folder and ended; one that does not end is killed.

        One that has not reported the end of the code has had its time.
        """
        has_reported = self._line(REPORTS) is not None
        ends_s = time.monotonic() + (GRACE_S if has_reported else 0)
        while select.select([self._report], [], [], max(ends_s - time.monotonic(), 0))[0]:
            if not os.read(self._report, 4096):
                if not has_reported:
                    self._kill()
                return
        self._kill()

    def _kill(self) -> None:
        """Kill the code's processes before the program that runs it: until then the number of their group is theirs."""
        began = self._line(1)
        for group in (*((began["group"],) if began is not None else ()), self._supervisors):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def _line(self, number: int) -> dict[str, int] | None:
        """A line of the report, from 1; None if it has not come."""
        *lines, _ = self._reported.split(b"\n")
        return json.loads(lines[number - 1]) if len(lines) >= number else None
