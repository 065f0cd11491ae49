"""Run commands with each of many mutants in a copy of the checkout."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple

from tests.mutants.mutant import ROOT, Mutant

END_S = 20.0
"""A command that has taken too long gets so much time to end what it has started."""

SAYS_WHICH = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
"""The line of pytest that names a test."""


class Outcome(NamedTuple):
    """What became of a command.

    Attributes:
        is_noticed: it failed, or did not end.
        why: the first test that failed, or what else it said last; "" where nothing failed.
        took_s: seconds.
    """

    is_noticed: bool
    why: str
    took_s: float

    def __str__(self) -> str:
        verdict = "noticed" if self.is_noticed else "survived"
        return f"{verdict}{self.why and ': '}{self.why} ({self.took_s:.0f} s)"


@contextmanager
def copied_checkout() -> Iterator[Path]:
    """A copy of all tracked files as they are now, committed or not, with the environments of the checkout."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(folder, "tree")
        _git("worktree", "add", "--quiet", "--detach", str(place), _git("stash", "create") or "HEAD")
        try:
            for environment in ROOT.glob(".venv*"):
                (place / environment.name).symlink_to(environment.resolve())
            yield place
        finally:
            _git("worktree", "remove", "--force", str(place))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def changed(mutant: Mutant, place: Path) -> Iterator[None]:
    """Have a copy of the checkout say what a mutant says, within the block. Raises StaleMutantError."""
    texts = mutant.texts(place)
    before = {file: (place / file).read_text() for file in texts}
    try:
        for file, text in texts.items():
            _write(place / file, text)
        yield
    finally:
        for file, text in before.items():
            _write(place / file, text)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    # Bytecode goes by the second of the last change.
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def run(command: Sequence[str], place: Path, limit_s: float) -> Outcome:
    """Run a command in a copy of the checkout. One that takes longer than `limit_s` is ended, and counts as noticed."""
    environment = {**os.environ, "PYTHONPATH": str(place), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    began_s = time.monotonic()
    # What the command leaves running may hold a pipe open for long: a file ends with the command.
    with TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        said.seek(0)
        text = said.read()
    took_s = time.monotonic() - began_s
    if code is None:
        return Outcome(True, f"not done after {limit_s:.0f} s", took_s)
    if code == 0:
        return Outcome(False, "", took_s)
    which = SAYS_WHICH.search(text)
    return Outcome(True, which[1] if which is not None else text.strip().rpartition("\n")[2][:100], took_s)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue
