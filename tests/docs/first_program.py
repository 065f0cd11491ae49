"""Runs README's first program as it is printed, on Ray, with a given Python: `python -m tests.docs.first_program PYTHON`.

It runs in an empty folder and an environment without this checkout. A service on this machine answers for Gemini, by the replies
above the program. `make smoke` names the Python of an environment that has the wheel and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT, Page
from tests.support.servers.gemini_server import GeminiServer, Json, call, text


def run(python: str | Path, folder: Path) -> tuple[str, str]:
    """Run it in a folder. Returns what it prints, and what README says that it prints. Raises CalledProcessError."""
    block = next(block for block in Page(ROOT / "README.md").blocks if block.info == "python")
    assert block.output is not None, f"{block} does not say what it prints"
    program = folder / "support.py"
    program.write_text(block.code)
    ours = ("RAYGROVE_", "PYTHON", "GOOGLE_", "GEMINI_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with GeminiServer([_reply(each) for each in json.loads(block.note("replies") or "[]")]) as server:
        environment |= {"GOOGLE_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": server.url}
        done = subprocess.run(
            [Path(python).absolute(), program],
            cwd=folder,
            env=environment,
            check=True,
            timeout=120,
            stdout=subprocess.PIPE,
            text=True,
        )
    return done.stdout, block.output


def _reply(reply: str | Json) -> Json:
    """The answer of Gemini for a reply of a ScriptedModel."""
    if isinstance(reply, str):
        return text(reply)
    if "transfer" in reply:
        return call("transfer_to_agent", {"agent_name": reply["transfer"]})
    return call(reply["call"], reply["args"])


def main(python: str) -> int:
    """Run it, and say whether it does what README says. Returns 0 if so, else 1."""
    with tempfile.TemporaryDirectory() as folder:
        printed, expected = run(python, Path(folder))
    print(printed, end="")
    if printed != expected:
        print(f"README says that it prints\n{expected}", end="", file=sys.stderr)
    return int(printed != expected)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
