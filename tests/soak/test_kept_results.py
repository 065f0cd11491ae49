"""Processes are killed at random moments of responses with twenty calls: no call runs again that had ended.

The variable SOAK_KILLS says how often; without it 300 times.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from actors import LlmAgent, tool
from actors.messages.limits import DEFAULT_LIMITS
from actors.testing import PatternModel
from runtime import Runtime, Settings
from tests.support.runtimes import Deploy, stored

KILLS = int(os.environ.get("SOAK_KILLS", "300"))

CALLS = 20

LONGEST_S = 1.5

STORED_S = DEFAULT_LIMITS.results_wait_s + 0.5
"""A result is in the log this long after its call has ended, on a machine that is busy."""


class Note(NamedTuple):
    """The beginning or the end of a call."""

    what: str
    number: int
    at_s: float


class Notes:
    """What calls have noted, whichever process they were in."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, what: str, number: int) -> None:
        with self._file.open("a") as file:
            file.write(f"{what} {number} {time.time()}\n")

    def since(self, time_s: float) -> list[Note]:
        words = (line.split() for line in self._file.read_text().splitlines())
        notes = [Note(what, int(number), float(at_s)) for what, number, at_s in words]
        return [note for note in notes if note.at_s >= time_s]


def payer(notes: Notes) -> LlmAgent:
    @tool
    async def pay(number: int, takes_s: float) -> str:
        """Pay."""
        notes.add("began", number)
        await asyncio.sleep(takes_s)
        notes.add("ended", number)
        return f"paid {number}"

    chance = random.Random(1)
    calls = [{"call": "pay", "args": {"number": number, "takes_s": chance.uniform(0, LONGEST_S)}} for number in range(CALLS)]
    return LlmAgent(name="payer", model=PatternModel([("tool:", "done"), ("", {"parts": calls})]), tools=[pay])


def kill_at(rt: Runtime, after_s: float) -> float:
    """Kill the process of the agent after a while. Returns when."""
    threading.Event().wait(after_s)
    pid = rt.statistics().agents["payer"].pid
    at_s = time.time()
    os.kill(pid, signal.SIGKILL)
    return at_s


def wrong_after_kills(deploy: Deploy, kills: int) -> tuple[list[str], Counter[str]]:
    """What is not as it should be after so many kills, and how many calls were made, how often."""
    notes, chance = Notes(deploy.folder / "notes"), random.Random(2)
    wrong: list[str] = []
    made: Counter[str] = Counter()
    with deploy(payer(notes), settings=Settings(results_wait_s=DEFAULT_LIMITS.results_wait_s)) as rt:
        for number in range(kills):
            session = f"s{number}"
            begun_s = time.time()
            turn = rt.run(user_id="ada", session_id=session, message="go")
            events = iter(turn)
            while not any(next(events).function_calls()):
                pass
            killed_s = kill_at(rt, chance.uniform(0, LONGEST_S))
            text = turn.result().text
            results = [each.response.get("result") for event in stored(rt, session) for each in event.function_responses()]
            if text != "done" or sorted(map(str, results)) != sorted(f"paid {call}" for call in range(CALLS)):
                wrong.append(f"{session}: {text!r} {results}")
            noted = notes.since(begun_s)
            began = Counter(note.number for note in noted if note.what == "began")
            ended = {note.number for note in noted if note.what == "ended" and note.at_s <= killed_s - STORED_S}
            wrong += [f"{session}: call {call} had ended and ran {began[call]} times" for call in ended if began[call] > 1]
            made.update(
                {"once": sum(often == 1 for often in began.values()), "again": sum(often > 1 for often in began.values())}
            )
    return wrong, made


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("local_ray")
def test_no_call_runs_again_that_had_ended(tmp_path: Path) -> None:
    wrong, made = wrong_after_kills(Deploy("ray", tmp_path), KILLS)
    assert not wrong
    assert made["once"] + made["again"] == CALLS * KILLS


@pytest.mark.full
@pytest.mark.usefixtures("local_ray")
def test_no_call_runs_again_that_had_ended_at_a_few_moments(tmp_path: Path) -> None:
    wrong, made = wrong_after_kills(Deploy("ray", tmp_path), 5)
    assert not wrong
    assert made["once"] > made["again"] / 2
