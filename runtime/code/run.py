"""One run of a model's code, seen from the process that asks for it: its files go in, its output and its files come out."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
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
        files: the files that its folder has, by name.
        env: its environment, beside what every program needs.
    """
    run = _Run(code, files, env, limits)
    try:
        return await in_thread(run.whole)
    finally:
        run.end()


class _Run:
    def __init__(self, code: str, files: Mapping[str, bytes], env: Mapping[str, str], limits: CodeLimits) -> None:
        self._code = code
        self._files = files
        self._env = env
        self._limits = limits
        self._lock = threading.Lock()
        self._lifeline: IO[bytes] | None = None
        self._is_over = False

    def end(self) -> None:
        """End the run, wherever it is. Its folder is deleted."""
        with self._lock:
            self._is_over = True
            if self._lifeline is not None:
                with contextlib.suppress(OSError):
                    self._lifeline.close()

    def whole(self) -> CodeResult:
        """Run the code from its start to its end."""
        folder = Path(tempfile.mkdtemp(prefix="raygrove-python-"))
        try:
            process, report = self._start(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with process:
            try:
                stdout, stderr, reported = _Output(process, report, self._limits).read()
                ended = (reported["exit_code"], bool(reported["late"]), bool(reported["out_of_memory"]))
                result = CodeResult(stdout, stderr, *ended)
                self._collect(folder / "work", result)
                return result
            finally:
                self.end()
                # It is closed when the folder is gone.
                while os.read(report, 4096):
                    pass
                os.close(report)

    def _start(self, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
        work, home = folder / "work", folder / "home"
        for each in (work, home):
            each.mkdir()
        for name, data in self._files.items():
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
            self.end()
        return process, report

    def _collect(self, work: Path, result: CodeResult) -> None:
        """Read the files that the code has written. A link is no file: it may lead anywhere."""
        for path in sorted(work.rglob("*")):
            name = path.relative_to(work).as_posix()
            if path.is_symlink() or not path.is_file() or "__pycache__" in path.parts:
                continue
            # At the limit it has been cut.
            if path.stat().st_size >= self._limits.file_bytes:
                result.left_out.append(name)
            elif (data := path.read_bytes()) != self._files.get(name):
                if len(result.files) < self._limits.files:
                    result.files[name] = data
                else:
                    result.left_out.append(name)


def _environment(home: Path) -> dict[str, str]:
    """What every program needs, and nothing of this process: keys of models are in its environment."""
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

    def __init__(self, process: subprocess.Popen[bytes], report: int, limits: CodeLimits) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._outputs = {process.stdout.fileno(): _Kept(limits.output_chars), process.stderr.fileno(): _Kept(limits.output_chars)}
        self._report = report
        self._ends_s = time.monotonic() + limits.timeout_s + GRACE_S

    def read(self) -> tuple[str, str, dict[str, int]]:
        """Return stdout, stderr and the report.

        Raises:
            RuntimeError: the program that runs the code was killed.
        """
        reported = b""
        with selectors.DefaultSelector() as selector:
            for each in (*self._outputs, self._report):
                selector.register(each, selectors.EVENT_READ)
            while selector.get_map() and (ready := selector.select(max(self._ends_s - time.monotonic(), 0))):
                for key, _ in ready:
                    data = os.read(key.fd, 64 * 1024)
                    if key.fd == self._report:
                        reported += data
                        is_read = not data or reported.endswith(b"\n")
                        self._ends_s = time.monotonic() + AFTER_END_S if is_read else self._ends_s
                    else:
                        self._outputs[key.fd].add(data)
                        is_read = not data
                    if is_read:
                        selector.unregister(key.fd)
        if not reported.endswith(b"\n"):
            raise RuntimeError("the process that runs the code was killed, for example since the machine had no memory left")
        stdout, stderr = self._outputs.values()
        return stdout.text(), stderr.text(), json.loads(reported)
