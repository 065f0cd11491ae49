"""Plays ADK programs with a scripted model in ADK's own Runner and here.

python -m tests.adk.side_by_side PATH… [--only TEXT] [--out FILE]

A program is a folder with an `agent.py` or a `root_agent.yaml`. Each is loaded and played in processes of its own, once by each
side. A line says what became of it; behind a difference stands the first event that is another one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.adk.side_by_side.compared import verdict
from tests.adk.side_by_side.sides import ADK, HERE

TIMEOUT_S = 100
PLAY_S = 80

_MISSING = re.compile(r".*No module named '(\w+)|ImportError: ")
_NETWORK = re.compile(r"ConnectError|Failed to fetch")
_CREDENTIALS = re.compile(r"credential|service account|api[ _]key|environment variable|_TOKEN|Either integration", re.IGNORECASE)


def programs(paths: list[str]) -> Iterator[Path]:
    for path in paths:
        files = [file for name in ("agent.py", "root_agent.yaml") for file in Path(path).rglob(name)]
        yield from sorted({file.parent.resolve() for file in files})


def not_imported(reason: str) -> str:
    if found := _MISSING.match(reason):
        return f"not imported, a package is not installed: {found[1] or reason}"
    if _NETWORK.search(reason):
        return f"not imported, it wants a network: {reason}"
    if _CREDENTIALS.search(reason):
        return f"not imported, it wants credentials or settings: {reason}"
    return f"not imported, it fails: {reason}"


def _child(folder: Path, side: str, sent: Connection) -> None:
    with Path(os.devnull).open("w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    from tests.adk.side_by_side.sides import play, prepare

    with tempfile.TemporaryDirectory() as scratch:
        try:
            root = prepare(folder, Path(scratch))
        except BaseException as error:  # Programs raise anything, SystemExit among it.
            sent.send({"not loaded": f"{type(error).__name__}: {error}"})
            os._exit(0)
        try:
            sent.send(asyncio.run(asyncio.wait_for(play(root, side), PLAY_S)))
        except BaseException as error:
            sent.send({"failed": f"{type(error).__name__}: {error}"})
    os._exit(0)


def _played(folder: Path, side: str) -> dict[str, Any]:
    fork = get_context("fork")
    received, sent = fork.Pipe(duplex=False)
    process = fork.Process(target=_child, args=(folder, side, sent))
    process.start()
    sent.close()
    try:
        return dict(received.recv()) if received.poll(TIMEOUT_S) else {"failed": f"it takes longer than {TIMEOUT_S} s"}
    except EOFError:
        return {"failed": "it ends the process"}
    finally:
        process.kill()
        process.join()


def main() -> None:
    """Print a line for each program, and how many there are of each kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.adk.side_by_side", description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--only", default="", help="only programs with this in their path")
    parser.add_argument("--out", type=Path, help="a JSON file for all events of both sides")
    given = parser.parse_args()
    for name in ("google.adk.agents", "google.adk.workflow", "runtime.integrations.adk.convert", "tests.adk.side_by_side.sides"):
        import_module(name)
    kinds: Counter[str] = Counter()
    found: dict[str, Any] = {}
    for folder in programs(given.paths):
        if given.only not in folder.as_posix():
            continue
        theirs = _played(folder, ADK)
        if "not loaded" in theirs:
            kind, why = "not loaded", not_imported(theirs["not loaded"])
            ours: dict[str, Any] = {}
        else:
            ours = _played(folder, HERE)
            kind, why = verdict(theirs, ours, f"{folder.parent.name}/{folder.name}")
        kinds[kind] += 1
        found[folder.as_posix()] = {"kind": kind, "why": why, ADK: theirs, HERE: ours}
        print(f"{folder.parent.name}/{folder.name}: {kind}{': ' if why else ''}{' '.join(why.split())[:600]}", flush=True)
        if given.out:
            given.out.write_text(json.dumps(found, indent=1, default=str))
    print()
    for kind, count in kinds.most_common():
        print(f"{count:4} {kind}")


if __name__ == "__main__":
    main()
