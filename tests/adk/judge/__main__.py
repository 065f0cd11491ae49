"""Runs ADK's tests by plain ADK, by Runtime(root) and with islands, and says how the three differ.

python -m tests.adk.judge FOLDER [--out FILE] [--only TEXT] [--mode root|islands]

FOLDER has ADK's tests, as `tests/unittests` of its repository. They are not part of this project.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.adk.judge.verdicts import SURPRISES, judged, load_expected, table, unknown

HERE = Path(__file__).parent
MODES = ("plain", "root", "islands")
LEFT_OUT = ("live", "cli", "deploy", "bigquery", "telemetry", "streaming/", "release_dependencies", "optional_dependencies")
"""Words in the paths of tests that are not run: what they test has no counterpart, or wants a service."""

PART = 12
"""Files that one process runs."""

USES = ("Runner", "run_workflow")
"""Words of a file whose tests run something, directly or by the helpers of ADK's tests."""

# Tracebacks are native: to find a statement pytest parses whole files, which fails deep in a stack of Python 3.11.
CONFIG = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
timeout = 60
addopts = -q -p no:cacheprovider -p no:raygrove --no-header --disable-warnings --tb=native --continue-on-collection-errors
"""


def files(folder: Path, only: str) -> Iterator[Path]:
    """The files of tests that name a Runner."""
    for path in sorted(folder.rglob("test_*.py")):
        inside = path.relative_to(folder).as_posix()
        if only in inside and not any(word in inside for word in LEFT_OUT):
            text = path.read_text(encoding="utf-8")
            if any(word in text for word in USES):
                yield path


def run(folder: Path, given: Sequence[Path], mode: str) -> dict[str, dict[str, Any]]:
    """Run the tests of some files in a process of their own, and return what became of each."""
    root = folder
    while (root / "__init__.py").exists():
        root = root.parent
    with tempfile.TemporaryDirectory() as made:
        config, out = Path(made, "pytest.ini"), Path(made, "out.json")
        config.write_text(CONFIG)
        command = [sys.executable, "-m", "pytest", "-c", str(config), "--rootdir", str(root), "-p", "judge.plugin"]
        command += ["--judge", mode, "--judge-out", str(out), *map(str, given)]
        paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 2):
            raise SystemExit(f"pytest failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        for line in done.stdout.splitlines():
            if line.startswith("ERROR tests"):
                print(f"not imported, since a package or a name is not there: {line.removeprefix('ERROR ')}", file=sys.stderr)
        found: dict[str, dict[str, Any]] = json.loads(out.read_text())
    prefix = f"{folder.relative_to(root).as_posix()}/"
    return {name.removeprefix(prefix): note for name, note in found.items()}


def main() -> None:
    """Run the tests, write the JSON, and print the table. Exits with 1 where a test is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.adk.judge", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("judge.json"))
    parser.add_argument("--only", default="", help="only files with this in their path")
    parser.add_argument("--mode", choices=MODES[1:], help="only this one beside plain")
    given = parser.parse_args()
    folder = given.folder.resolve()
    tests = list(files(folder, given.only))
    if not tests:
        raise SystemExit(f"{folder} has no test files that name a Runner: give tests/unittests of ADK's repository")
    found = json.loads(given.out.read_text()) if given.out.exists() and given.mode else {}
    names = [path.relative_to(folder).as_posix() for path in tests]
    for mode in MODES if given.mode is None else ("plain", given.mode):
        known = {name.partition("::")[0] for name in found.get(mode, ())} if mode == "plain" else ()
        wanted = [path for path, name in zip(tests, names, strict=True) if name not in known]
        # In parts: a process that has imported them all is slow, and one crash would cost everything.
        for first in range(0, len(wanted), PART):
            found.setdefault(mode, {}).update(run(folder, wanted[first : first + PART], mode))
            print(f"{mode}: {min(first + PART, len(wanted))} of {len(wanted)} files", file=sys.stderr, flush=True)
        given.out.write_text(json.dumps(found, indent=1, sort_keys=True))
    expected = load_expected()
    plain = {name: note for name, note in found["plain"].items() if name.partition("::")[0] in names}
    verdicts = [verdict for mode in MODES[1:] if mode in found for verdict in judged(plain, found[mode], mode, expected)]
    print(table(plain, verdicts))
    surprises = [verdict for verdict in verdicts if verdict.kind in SURPRISES]
    for verdict in surprises:
        print(f"{verdict.mode}: {verdict.test}: {verdict.kind}: {verdict.why}")
    gone = unknown(plain, expected) if not given.only else []
    for test in gone:
        print(f"{test}: expected to fail, and not judged: there is no such test, or it fails with ADK as well")
    raise SystemExit(1 if surprises or gone else 0)


if __name__ == "__main__":
    main()
