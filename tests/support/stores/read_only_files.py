"""Files that are read-only for a while, for every account that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534
"""An account that owns nothing."""


@contextmanager
def read_only(files: Sequence[Path]) -> Iterator[None]:
    """Files that this process may only read. Root, which no mode stops, becomes another account meanwhile."""
    for file in files:
        # Those beside it, such as a write-ahead log, are for their owner only, which is another account now.
        for each in (file, *file.parent.glob(f"{file.name}-*")):
            each.chmod(0o444)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for file in files:
            file.chmod(0o644)


@contextmanager
def immutable(files: Sequence[Path]) -> Iterator[None]:
    """Files that no process may change, root included: `chattr +i`."""
    subprocess.run(["chattr", "+i", *files], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


def may_make_immutable(folder: Path) -> bool:
    """Whether `chattr +i` is allowed and keeps those from writing who have the file open: file systems in memory let them."""
    if shutil.which("chattr") is None:
        return False
    probe = folder / "probe"
    with probe.open("w") as file:
        subprocess.run(["chattr", "+i", probe], check=False, capture_output=True)
        try:
            file.write("x")
            file.flush()
            is_kept = False
        except PermissionError:
            is_kept = True
        finally:
            subprocess.run(["chattr", "-i", probe], check=False, capture_output=True)
            probe.unlink()
    return is_kept
