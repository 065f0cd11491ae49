"""Run the examples as a newcomer does, and read what they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")

FAILS_ON_PURPOSE = {"supervision": "ConnectionError", "batch": "ConnectionError", "graph": "LookupError"}
"""Examples in which agents fail, and the error: it is logged with its traceback."""


def run(example: str, folder: Path, address: str | None = None, *, logs: bool = False) -> str:
    """Run an example to its end and return its output. It must log no errors or warnings, unless it `logs` by nature."""
    environment = {name: value for name, value in os.environ.items() if name not in (*MODEL_KEYS, "RAY_ADDRESS")}
    environment |= {"COLUMNS": "200", **({"RAY_ADDRESS": address} if address is not None else {})}
    command = [sys.executable, str(EXAMPLES / f"{example}.py")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False)
    logged = done.stderr
    if example in FAILS_ON_PURPOSE:
        assert "Warning" not in logged
        lines = logged.splitlines()
        assert all(FAILS_ON_PURPOSE[example] in line for line in lines if " failed in turn " in line), logged
        assert any(" failed in turn " in line for line in lines)
        logged = ""
    if logs and not done.returncode:
        logged = ""
    assert (done.returncode, logged) == (0, "")
    return done.stdout


def assert_in_order(printed: str, essential: list[str]) -> None:
    """Look for the essential lines in what was printed, each after the one before."""
    place = 0
    for line in essential:
        found = printed.find(line, place)
        assert found >= 0, f"{line!r} is not printed, or too early:\n{printed}"
        place = found + len(line)
