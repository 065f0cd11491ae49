"""Says which ADK programs below some folders can be run: python -m tests.adk.tally PATH…

A program is a folder with an `agent.py` or a `root_agent.yaml`. Each is loaded as by `raygrove run`, in a process of its own,
since programs change what they share.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_TIMEOUT_S = 120
_UNCHANGED, _NOTED, _ISLANDS = "a tree", "a tree with a note", "a tree with islands"
_MISSING = re.compile(r".*No module named '(\w+)|ImportError: ")
_NETWORK = re.compile(r"ConnectError|Failed to fetch")
_CREDENTIALS = re.compile(r"credential|service account|api[ _]key|environment variable|_TOKEN|Either integration", re.IGNORECASE)


def outcome(folder: Path) -> str:
    """What becomes of the program in a folder: its kind, and behind a colon the reason."""
    warnings.simplefilter("ignore")
    os.chdir(folder.parent)
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_API_KEY"):
        os.environ.setdefault(name, "none")
    from actors.errors import DefinitionError, RequestError
    from runtime.frontends.loading.app import load_app

    try:
        root = load_app(str(folder)).root
    except RequestError as error:
        return f"no program: {error}"
    except DefinitionError as error:
        return not_imported(str(error).partition(": ")[2])
    return _taken(root)


def not_imported(reason: str) -> str:
    if found := _MISSING.match(reason):
        return f"not imported, a package is not installed: {found[1] or reason}"
    if _NETWORK.search(reason):
        return f"not imported, it wants a network: {reason}"
    if _CREDENTIALS.search(reason):
        return f"not imported, it wants credentials or settings: {reason}"
    return f"not imported, it fails: {reason}"


def _taken(root: Any) -> str:
    try:
        notes = _deployable(root, islands=False)
    except Exception as error:
        refused = str(error)
    else:
        return ": ".join([_NOTED, "; ".join(notes)]) if notes else _UNCHANGED
    try:
        notes = _deployable(root, islands=True)
    except Exception as error:
        return f"refused: {error}"
    return f"{_ISLANDS}: {refused}"


def _deployable(root: Any, *, islands: bool) -> list[str]:
    """The notes of the tree that is made of it. Raises what a deployment raises."""
    from ray import cloudpickle

    from actors.layers.trees.tree import AgentTree
    from runtime.adk import from_adk

    adapted = from_adk(root, islands=islands)
    # What a deployment checks, and what travels to its processes.
    tree = AgentTree(adapted.root_agent, adapted.plugins)
    cloudpickle.dumps([tree.spec(agent.name) for agent in tree])  # type: ignore[no-untyped-call]
    return list(adapted.notes)


def programs(paths: list[str]) -> Iterator[Path]:
    for path in paths:
        files = [file for name in ("agent.py", "root_agent.yaml") for file in Path(path).rglob(name)]
        yield from sorted({file.parent.resolve() for file in files})


def _child(folder: Path, sent: Connection) -> None:
    with Path(os.devnull).open("w") as nowhere:
        # Programs print, in C as well.
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    try:
        sent.send(outcome(folder))
    except BaseException as error:  # Programs raise anything, SystemExit among it.
        sent.send(f"not imported, it fails: {type(error).__name__}: {error}")
    # What a program has started must not keep the process.
    os._exit(0)


def _said_of(folder: Path) -> str:
    # Forked, since importing google-adk and Ray anew takes ten times as long as a program.
    fork = get_context("fork")
    received, sent = fork.Pipe(duplex=False)
    process = fork.Process(target=_child, args=(folder, sent))
    process.start()
    sent.close()
    try:
        return str(received.recv()) if received.poll(_TIMEOUT_S) else f"not imported, it takes longer than {_TIMEOUT_S} s"
    except EOFError:
        return "not imported, it ends the process"
    finally:
        process.kill()
        process.join()


def main(paths: list[str]) -> None:
    """Print a line for each program, and how many there are of each kind."""
    for name in ("google.adk.agents", "google.adk.workflow", "runtime.integrations.adk.convert", "ray.cloudpickle"):
        import_module(name)
    kinds: Counter[str] = Counter()
    for folder in programs(paths):
        said = " ".join(_said_of(folder).split())
        kinds[said.partition(":")[0]] += 1
        print(f"{folder.parent.name}/{folder.name}: {said[:240]}", flush=True)
    print()
    for kind, count in kinds.most_common():
        print(f"{count:4} {kind}")


if __name__ == "__main__":
    main(sys.argv[1:])
