"""A map whose program is stopped and killed, and run again until it is done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from actors import LlmAgent
from tests.support.models.map_models import NotedModel
from tests.support.programs.map_program import inputs
from tests.support.runtimes import Deploy

ROOT = Path(__file__).parents[3]


def started(folder: Path, number: int, concurrency: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.programs.map_program", str(folder), str(number), str(concurrency)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def stopped(folder: Path, number: int, concurrency: int, after: int, how: signal.Signals) -> tuple[int, str]:
    """Run the program, and send it a signal after as many model calls. Returns its exit code, and what it wrote."""
    calls = folder / "calls"
    with started(folder, number, concurrency) as program:
        while not calls.exists() or len(calls.read_bytes().splitlines()) < after:
            assert program.poll() is None, "it ended before"
            time.sleep(0.005)
        program.send_signal(how)
        assert program.stderr is not None
        said = program.stderr.read()
    return program.returncode, said


def finished(folder: Path) -> set[str]:
    """The turns that have finished, by their ids."""
    root = LlmAgent(name="echo", model=NotedModel(folder / "calls"))
    with Deploy("local", folder)(root) as rt:
        return {turn.invocation_id for turn in rt.turns.list(state="finished", limit=1_000_000)}


def check_killed_programs(folder: Path, number: int, stops: list[tuple[int, int, signal.Signals]]) -> None:
    """Stop a map several times, run it to its end, and check that each input was answered once.

    Args:
        stops: of each stop: how many turns run at once, after how many model calls it comes, and the signal.
    """
    model = NotedModel(folder / "calls")
    seen: list[tuple[set[str], Counter[str]]] = []
    for concurrency, after, how in stops:
        code, said = stopped(folder, number, concurrency, after, how)
        if how == signal.SIGINT:
            assert code == 130
            assert "nightly: stopped, " in said
            assert "The same program goes on from here: name='nightly'" in said
        else:
            assert code == -how
        seen.append((finished(folder), model.calls()))
    with started(folder, number, 3 * stops[0][0]) as program:
        assert program.stderr is not None
        assert program.stderr.read() == ""
    lines = [line.split("\t") for line in (folder / "results").read_text().splitlines()]
    texts = {turn: text for turn, text, _ in lines[-number:]}
    assert sorted(texts.values()) == sorted(inputs(number))
    assert all(answer == f"echo {text}" for _, text, answer in lines)
    calls = model.calls()
    for done, calls_then in seen:
        assert done
        assert done <= texts.keys()
        assert all(calls[texts[turn]] == calls_then[texts[turn]] for turn in done)
    assert calls.keys() == set(inputs(number))
    assert calls.total() <= number + sum(concurrency for concurrency, _, _ in stops)


@pytest.mark.full
def test_a_map_that_is_stopped_and_killed_answers_each_input_once(tmp_path: Path) -> None:
    check_killed_programs(tmp_path, 80, [(8, 20, signal.SIGINT), (20, 50, signal.SIGKILL)])


@pytest.mark.soak
@pytest.mark.timeout(1_200)
def test_ten_thousand_inputs_are_answered_once_although_the_program_is_killed_three_times(tmp_path: Path) -> None:
    check_killed_programs(tmp_path, 10_000, [(200, each, signal.SIGKILL) for each in (2_000, 5_000, 8_000)])
