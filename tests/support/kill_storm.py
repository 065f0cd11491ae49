"""Turns in many sessions while processes are killed, and the invariants of the logs afterwards."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from actors import Event
from actors.definitions.tree import AgentTree
from actors.errors import RaygroveError
from actors.messages.event import USER
from actors.rules.routing.selection import select_agent
from runtime import Runtime
from tests.support.chaos_tree import KINDS, chaos_tree
from tests.support.runtimes import Deploy

PATIENCE_S = 120.0
"""A turn that has not ended by then hangs."""


class DrivenTurn(msgspec.Struct):
    """One turn, as its driver saw it."""

    session_id: str
    text: str
    invocation_id: str
    events: list[Event]
    failure: str = ""
    took_s: float = 0.0


class StormReport(msgspec.Struct):
    """The counts and times of a storm."""

    turns: int
    killed: Counter[str]
    failed: Counter[str]
    took_s: float
    slowest_s: float

    def lines(self) -> list[str]:
        """As text."""
        killed = ", ".join(f"{number} x {who}" for who, number in self.killed.most_common())
        failed = ", ".join(f"{number} x {what}" for what, number in self.failed.most_common()) or "none"
        return [
            f"{self.turns} turns in {self.took_s:.0f} s, the slowest took {self.slowest_s:.1f} s",
            f"{self.killed.total()} processes killed: {killed}",
            f"turns that failed: {failed}",
        ]


class ProcessKiller:
    """Kills a random process of a deployment at intervals, until it is stopped.

    Args:
        pause_s: between two kills.
        seed: of the random choice.
    """

    def __init__(self, rt: Runtime, pause_s: float, seed: int) -> None:
        self._rt = rt
        self._pause_s = pause_s
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow, daemon=True)
        self.killed: Counter[str] = Counter()

    def __enter__(self) -> ProcessKiller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _blow(self) -> None:
        while not self._over.wait(self._pause_s):
            # This waits for actors that are just starting: a process is only killed once it lives.
            seen = self._rt.statistics()
            living = {
                "session": seen.session.pid,
                "runner": seen.runner.pid,
                **{name: one.pid for name, one in seen.agents.items()},
            }
            who = self._random.choice(sorted(living))
            with suppress(ProcessLookupError):
                os.kill(living[who], signal.SIGKILL)
                self.killed[who] += 1


def run_storm(folder: Path, *, sessions: int, turns: int, pause_s: float, seed: int) -> StormReport:
    """Send turns to sessions, one after the other in each, all sessions at once; then check every log.

    Raises:
        AssertionError: something was lost, doubled or left open.
    """
    with Deploy("ray", folder)(chaos_tree()) as rt:
        began_s = time.monotonic()
        with ProcessKiller(rt, pause_s, seed) as storm, ThreadPoolExecutor(sessions) as drivers:
            played = [
                each for of_session in drivers.map(lambda n: _drive(rt, n, turns, seed), range(sessions)) for each in of_session
            ]
        took_s = time.monotonic() - began_s
        for session in range(sessions):
            _check(rt, f"s{session}", [each for each in played if each.session_id == f"s{session}"])
    failed = Counter(each.failure for each in played if each.failure)
    return StormReport(len(played), storm.killed, failed, took_s, max(each.took_s for each in played))


def _drive(rt: Runtime, session: int, turns: int, seed: int) -> list[DrivenTurn]:
    chosen = random.Random(f"{seed}/{session}")
    return [_turn(rt, f"s{session}", f"{chosen.choice(KINDS)} {number}") for number in range(turns)]


def _turn(rt: Runtime, session_id: str, text: str) -> DrivenTurn:
    began_s = time.monotonic()
    turn = rt.run(user_id="ada", session_id=session_id, message=text)
    played = DrivenTurn(session_id, text, turn.invocation_id, [])
    watch = threading.Timer(PATIENCE_S, turn._state.fail, [TimeoutError(f"{session_id}: {text!r} hangs")])
    watch.start()
    try:
        played.events += turn
    except RaygroveError as error:
        played.failure = f"{type(error).__name__}: {error}"
    finally:
        watch.cancel()
    played.took_s = time.monotonic() - began_s
    return played


def _check(rt: Runtime, session_id: str, played: Sequence[DrivenTurn]) -> None:
    session = rt.sessions.get("ada", session_id)
    assert session is not None
    log = list(session.events)
    assert [event.seq for event in log] == list(range(1, len(log) + 1)), "a place of the log is missing or taken twice"
    assert len({event.id for event in log}) == len(log), "an event stands twice"
    assert [event.text for event in log if event.author == USER] == [each.text for each in played], (
        "a message was lost or doubled"
    )
    for each in played:
        _check_turn(rt, each, [event for event in log if event.invocation_id == each.invocation_id])
    authors = list(dict.fromkeys(event.author for event in reversed(log) if event.author != USER))
    turn = rt.run(user_id="ada", session_id=session_id, message="talk at the end")
    assert turn.result().text == "noted"
    assert turn.agent == select_agent(AgentTree(chaos_tree()).topology, authors).agent, "the wrong agent has the floor"


def _check_turn(rt: Runtime, played: DrivenTurn, log: Sequence[Event]) -> None:
    told = [event.id for event in played.events]
    assert told == [event.id for event in log if event.author != USER], "what the driver was told is not what is stored"
    answers = Counter(response.id for event in log for response in event.function_responses())
    assert all(number == 1 for number in answers.values()), "a call has two answers"
    if played.failure:
        assert log[-1].error_code, f"a turn has failed without an event: {played.failure}"
    else:
        assert {call.id for event in log for call in event.function_calls()} == set(answers), "a call has no answer"
        assert log[-1].is_final_response()
    again = rt.attach(user_id="ada", session_id=played.session_id, invocation_id=played.invocation_id)
    try:
        ended = "" if list(again) else "it has said nothing"
    except RaygroveError as error:
        ended = f"{type(error).__name__}: {error}"
    assert ended == played.failure, "a turn has ended otherwise than its driver was told"
