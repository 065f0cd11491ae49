"""Describes the turns of Runtimes for a test that hangs: who runs, since when, what happened last, and what is waited for."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from actors.errors import RaygroveError
from actors.messages.event import Event
from actors.messages.turn_info import TurnInfo
from runtime.driver.runtime import Runtime
from runtime.frontends.testing.turn_path import trajectory

ANSWER_S = 3.0
"""How long a Runtime may take for one answer: what hangs may be the Runtime itself."""

EVENTS = 5
"""How many steps of a turn are shown, from its end."""

MAX_TURNS = 20
"""How many turns of a Runtime are shown."""

T = TypeVar("T")


def turn_report(runtimes: Sequence[Runtime]) -> str:
    """Tell what all these Runtimes do now. It never raises, and takes seconds at most."""
    lines = [line for runtime in runtimes for line in _of_runtime(runtime)]
    return "\n".join(lines) or "no Runtime of this test is open"


def _of_runtime(runtime: Runtime) -> Iterator[str]:
    yield f"{runtime!r}:"
    try:
        turns = [turn for state in ("running", "waiting", "paused") for turn in _asked(_listing(runtime, state))]
        yield from (f"  {line}" for line in _living(runtime))
        if not turns:
            yield "  no turn runs, waits in line or is paused"
        for turn in turns[:MAX_TURNS]:
            yield from (f"  {line}" for line in _of_turn(runtime, turn))
        if len(turns) > MAX_TURNS:
            yield f"  and {len(turns) - MAX_TURNS} more turns"
    except (RaygroveError, FutureTimeoutError) as error:
        yield f"  it does not answer: {error or type(error).__name__}"
        yield from (f"  {line}" for line in _stack(f"raygrove-{runtime.app_name}"))


def _listing(runtime: Runtime, state: str) -> Callable[[], list[TurnInfo]]:
    return lambda: runtime.turns.list(state=state, limit=MAX_TURNS + 1)


def _living(runtime: Runtime) -> Iterator[str]:
    statistics = _asked(runtime.statistics)
    for name, agent in sorted(statistics.agents.items()):
        busy = {key: value for key, value in agent.counts.items() if value and key in ("running", "threads_left")}
        told = ", ".join(f"{key} {value}" for key, value in busy.items())
        yield f"agent {name} lives in process {agent.pid}{': ' if told else ''}{told}"


def _of_turn(runtime: Runtime, turn: TurnInfo) -> Iterator[str]:
    since = f" for {time.time() - turn.begun_s:.1f} s" if turn.begun_s else ""
    whose = f"user {turn.user_id!r}, session {turn.session_id!r}"
    yield f"turn {turn.invocation_id} of {whose}: {turn.state}{since}, epoch {turn.epoch}"
    if not turn.first_seq:
        return
    events = [
        event
        for event in _asked(lambda: runtime.sessions.events(turn.user_id, turn.session_id, limit=100, newest_first=True))
        if event.invocation_id == turn.invocation_id
    ][::-1]
    if not events:
        return
    last = events[-1]
    yield f"  last event: {last.seq}, of {last.author}, {time.time() - last.timestamp:.1f} s ago"
    path = trajectory(events)
    if len(path) > EVENTS:
        yield f"  … {len(path) - EVENTS} steps before"
    yield from (f"  {step}" for step in path[-EVENTS:])
    yield from (f"  {line}" for line in _open_calls(runtime, turn, events))


def _open_calls(runtime: Runtime, turn: TurnInfo, events: Sequence[Event]) -> Iterator[str]:
    answered = {response.id for event in events for response in event.function_responses()}
    persons = {call.call_id for call in _asked(lambda: runtime.turns.pending(turn.user_id, turn.session_id))}
    for event in events:
        for call in event.function_calls():
            if call.id not in answered or call.id in persons:
                whom = "a person" if call.id in persons else "the tool"
                asked_s = time.time() - event.timestamp
                yield f"waits for {whom}: {call.name} {call.id}, called by {event.author} {asked_s:.1f} s ago"


def _asked(question: Callable[[], T]) -> T:
    """The answer to a question, asked in a thread that may be left behind. Raises TimeoutError, and what the question raises."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            # The border of the thread: the caller gets it.
            answer.set_exception(error)

    threading.Thread(target=ask, name="raygrove-report", daemon=True).start()
    try:
        return answer.result(ANSWER_S)
    except FutureTimeoutError:
        raise FutureTimeoutError(f"not within {ANSWER_S:g} s") from None


def _stack(thread_name: str) -> Iterator[str]:
    """Where a thread is."""
    for thread in threading.enumerate():
        frame = sys._current_frames().get(thread.ident or 0)
        if thread.name == thread_name and frame is not None:
            yield f"its event loop is held up in thread {thread.name}:"
            for line in "".join(traceback.format_stack(frame)[-4:]).splitlines():
                yield f"  {line}"
