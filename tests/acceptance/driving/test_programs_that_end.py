"""A program that is told to end, or fails, leaves its turns open to be resumed, on both engines; it may cancel one itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs.ending_program import TURN, runtime
from tests.support.sources import ROOT

TERM, INT = signal.SIGTERM, signal.SIGINT

WAYS: dict[str, tuple[str, list[signal.Signals], str]] = {
    "result, SIGTERM": ("result", [TERM], "open"),
    "iteration, SIGTERM": ("iterate", [TERM], "open"),
    "body of the iteration, SIGTERM": ("body", [TERM], "open"),
    "result, Ctrl-C": ("result", [INT], "open"),
    "result, Ctrl-C twice": ("result", [INT, INT], "open"),
    "await, Ctrl-C": ("wait", [INT], "open"),
    "an exception": ("fail", [], "open"),
    "close, leaving turns": ("close", [], "open"),
    "iteration, Ctrl-C": ("iterate", [INT], "cancelled"),
    "body of the iteration, Ctrl-C": ("body", [INT], "cancelled"),
    "the end of the block": ("leave", [], "cancelled"),
}
"""How the program waits for its turn, the signals that it gets then, and what becomes of the turn."""


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.full)])
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines. On Ray the program starts one of its own."""
    return str(request.param)


@pytest.mark.sampled(6, full=5)
@pytest.mark.parametrize("way", WAYS)
def test_a_turn_is_open_or_cancelled_afterwards(engine: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, signals, becomes = WAYS[way]
    monkeypatch.setenv("ENDING_FOLDER", str(tmp_path))
    environment = os.environ | {"RAYGROVE_MAX_LIVE_AGENTS": "1"}
    command = [sys.executable, "-m", "tests.support.programs.ending_program", engine, str(tmp_path), waits]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "paying\n"
        for each in signals:
            program.send_signal(each)
        _, errors = program.communicate(timeout=60)
    if signals:
        assert program.returncode != 0, errors
    (tmp_path / "go").touch()
    with runtime("local", str(tmp_path)) as rt:
        [turn] = rt.turns.list("ada", "s1")
        if becomes == "cancelled":
            assert turn.state == "cancelled"
            return
        assert turn.state == "running", errors
        assert rt.run(**TURN).result().text == "It is paid."
        calls = [call for event in rt.sessions.get("ada", "s1").events for call in event.function_calls()]  # type: ignore[union-attr]
        assert len(calls) == 1
