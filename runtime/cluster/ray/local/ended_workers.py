"""Files that ended workers of a local Ray have left beside its logs: those of the latest stay, to be read when one has failed.

Ray itself removes none: each worker leaves five, and another for each agent that has logged in it. On a cluster they all stay:
there they are Ray's, and something may collect them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

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
    """Remove the files of workers that have ended, but for the latest. Errors are passed over.

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
