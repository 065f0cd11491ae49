"""Says which ADK programs below some folders `from_adk` takes: python -m tests.adk.tally PATH…

Each `agent.py` is imported in a process of its own, since programs change what they share.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path


def outcome(path: Path) -> str:
    """What becomes of the program in one `agent.py`."""
    warnings.simplefilter("ignore")
    package, name = path.parent, f"{path.parent.name}.agent"
    while (package.parent / "__init__.py").exists():
        package = package.parent
        name = f"{package.name}.{name}"
    sys.path[:0] = [str(package.parent), str(path.parent)]
    os.chdir(package.parent)
    os.environ.setdefault("GOOGLE_CLOUD_PROJECT", "none")
    os.environ.setdefault("GOOGLE_CLOUD_LOCATION", "none")
    os.environ.setdefault("GOOGLE_API_KEY", "none")
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # Programs raise anything, SystemExit among it.
        return f"not imported: {type(error).__name__}: {error}"
    root = getattr(module, "app", None) or getattr(module, "root_agent", None)
    if root is None:
        return "no program: it has neither root_agent nor app"
    from ray import cloudpickle

    from actors.definitions.tree.tree import AgentTree
    from runtime.adk import from_adk

    try:
        adapted = from_adk(root)
        # What a deployment checks, and what travels to its processes.
        tree = AgentTree(adapted.root_agent, adapted.plugins)
        cloudpickle.dumps([tree.spec(agent.name) for agent in tree])  # type: ignore[no-untyped-call]
    except Exception as error:
        return f"refused: {error}"
    return "; ".join(["a tree", *adapted.notes])


def main(paths: list[str]) -> None:
    """Print a line for each program, and how many there are of each kind."""
    kinds: Counter[str] = Counter()
    for path in sorted(found for given in paths for found in Path(given).rglob("agent.py")):
        command = [sys.executable, "-m", "tests.adk.tally", "--one", str(path.resolve())]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            said = done.stdout.strip().rpartition("\x00")[2] or f"not imported: {done.stderr.strip()[-200:]}"
        except subprocess.TimeoutExpired:
            said = "not imported: it takes longer than 60 s"
        kinds[said.partition(":")[0].partition(";")[0]] += 1
        print(f"{path.parent}: {said.splitlines()[0][:200]}")
    print(*(f"{count} {kind}" for kind, count in kinds.most_common()), sep=", ")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print("\x00" + outcome(Path(sys.argv[2])))
    else:
        main(sys.argv[1:])
