"""Record what an older commit pickles and encodes, for the tests that this release reads it.

Call: `python -m tests.support.releases.record COMMIT…`
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.programs.other_release import HOME, Release, known_to_all

RECORDED = HOME / "tests" / "unit" / "releases" / "recorded"
WRITE = "import pathlib, sys; from tests.support.releases.samples import write; write(pathlib.Path(sys.argv[1]))"
SHARED = ("samples.py", "compare.py")


def run_there(release: Release, code: str, folder: Path) -> str:
    """What a release prints that runs some code, with the samples at hand and a folder as its argument."""
    there = release.folder / "tests" / "support" / "releases"
    there.mkdir(parents=True, exist_ok=True)
    for name in SHARED:
        (there / name).write_text(Path(__file__).with_name(name).read_text())
    environment = {**known_to_all(os.environ), **release.environment, "PYTHONPATH": str(release.folder)}
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, cwd=release.folder, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def record(commit: str) -> None:
    """Record a commit's samples."""
    with TemporaryDirectory() as folder:
        release = Release.of_commit(Path(folder), commit, {})
        if release is None:
            raise SystemExit(f"git does not have {commit} here")
        (RECORDED / commit).mkdir(parents=True, exist_ok=True)
        run_there(release, WRITE, RECORDED / commit)


if __name__ == "__main__":
    for named in sys.argv[1:]:
        record(named)
