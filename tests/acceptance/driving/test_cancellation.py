"""Turns end soon wherever they hang when they are cancelled, and stay open when their program ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import (
    BaseAgent,
    Content,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    RunConfig,
)
from actors.errors import SessionBusyError, TurnCancelledError, TurnTimeoutError
from actors.messages.protocol.runs import Paused
from actors.testing import PatternModel
from runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.agents.conversation_tools import forever
from tests.support.machine.load import is_within
from tests.support.programs.ending_program import TURN, runtime
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.sources import ROOT


class BlockingPoints:
    """Tools that block, in this process."""

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._let = threading.Event()

    def wait_until_reached(self, times: int = 1) -> None:
        """Wait until so many calls block."""
        for _ in range(times):
            assert self._reached.acquire(timeout=60)

    def release(self) -> None:
        """Release the calls of `block` and `refuse`; those of `hang` end only by cancellation."""
        self._let.set()

    async def hang(self) -> None:
        """Never return."""
        self._reached.release()
        await asyncio.Event().wait()

    def block(self) -> str:
        """Block the thread until it is released."""
        self._reached.release()
        self._let.wait(60)
        return "late"

    async def refuse(self) -> str:
        """Ignore cancellation, and return when it is released."""
        self._reached.release()
        while not self._let.is_set():
            try:
                await asyncio.to_thread(self._let.wait, 60)
            except asyncio.CancelledError:
                continue
        return "late"

    def ask(self) -> None:
        """Ask the user."""
        self._reached.release()

    def tools(self) -> list[FunctionTool]:
        return [
            FunctionTool(self.hang),
            FunctionTool(self.block),
            FunctionTool(self.refuse),
            LongRunningFunctionTool(self.ask),
            forever,
        ]


class HangingModel:
    """A model that yields one partial response when streaming, and then hangs."""

    def __init__(self, points: BlockingPoints) -> None:
        self._points = points

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if stream:
            yield LlmResponse(content=Content.of_text("well", role="model"), partial=True)
        await self._points.hang()


def blocking_tree(points: BlockingPoints) -> BaseAgent:
    """A root that answers, blocks in a tool, or transfers to an agent that blocks elsewhere, as the message says."""
    tools = ("hang", "block", "refuse", "ask")
    says = PatternModel(
        [
            *((f"^{name}$", {"call": name}) for name in tools),
            ("^all$", {"parts": [{"call": name} for name in ("hang", "block", "ask")]}),
            *((f"^{name}$", {"transfer": name}) for name in ("model", "parallel", "loop")),
        ],
        default="hello",
    )
    hangs = HangingModel(points)
    calls = PatternModel([], default={"parts": ["I look", {"call": "hang"}]})
    return LlmAgent(
        name="root",
        model=says,
        tools=points.tools(),
        sub_agents=[
            LlmAgent(name="model", model=hangs),
            ParallelAgent(
                name="parallel",
                sub_agents=[
                    LlmAgent(name="left", model=hangs),
                    LlmAgent(name="right", model=calls, tools=points.tools()),
                    LlmAgent(name="done", model=PatternModel([], default="I am done")),
                ],
            ),
            LoopAgent(
                name="loop",
                sub_agents=[
                    LlmAgent(name="first", model=PatternModel([], default="once more")),
                    LlmAgent(name="second", model=calls, tools=points.tools()),
                ],
            ),
        ],
    )


ENDS_S = 1.0
"""How soon a turn has to end when it is cancelled."""

MARGIN_S = 2.0
"""Allowed on top of that, and as many times more as a busy machine is slower."""

PHASES = {
    "hang": 1,
    "block": 1,
    "refuse": 1,
    "all": 3,
    "model": 1,
    "parallel": 2,
    "loop": 1,
}
"""Where a turn can hang, by the message that leads there, with the number of calls that hang then."""

CANCELLED = {"error": "cancelled"}


@pytest.fixture
def points() -> Iterator[BlockingPoints]:
    made = BlockingPoints()
    yield made
    made.release()


@pytest.fixture
def rt(local: Deploy, points: BlockingPoints) -> Iterator[Runtime]:
    with local(blocking_tree(points)) as rt:
        yield rt
        # What hangs in a thread would otherwise hold up the end.
        points.release()


def start(rt: Runtime, message: str, **config: Any) -> Turn:
    return rt.run(user_id="ada", session_id="s1", message=message, run_config=RunConfig(**config))


def by_itself(rt: Runtime, turn: Turn) -> None:
    turn.cancel()


def by_another_driver(rt: Runtime, turn: Turn) -> None:
    rt.attach(user_id="ada", session_id="s1", invocation_id=turn.invocation_id).cancel()


def by_who_interrupts(rt: Runtime, turn: Turn) -> None:
    assert start(rt, "hi", on_concurrent_turn="interrupt").result().text == "hello"


def ends_soon(turn: Turn, stop: Callable[[], Any]) -> None:
    began_s = time.monotonic()
    stop()
    with pytest.raises(TurnCancelledError, match=turn.invocation_id):
        turn.result()
    assert is_within(time.monotonic() - began_s, ENDS_S + MARGIN_S)


def is_sealed(rt: Runtime, points: BlockingPoints) -> None:
    """Every call has one answer, nothing runs, a call released too late adds no event, and the next turn works."""
    log = stored(rt)
    calls = [call.id for event in log for call in event.function_calls()]
    answers = Counter(response.id for event in log for response in event.function_responses())
    assert answers == Counter(calls)
    assert rt.statistics().runner.counts["running"] == 0
    points.release()
    assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]
    assert [event.id for event in stored(rt)[: len(log)]] == [event.id for event in log]
    assert len(stored(rt)) == len(log) + 2


@pytest.mark.parametrize("stop", [by_itself, by_another_driver, by_who_interrupts])
@pytest.mark.parametrize("phase", PHASES)
def test_a_turn_ends_wherever_it_hangs(
    rt: Runtime, points: BlockingPoints, phase: str, stop: Callable[[Runtime, Turn], None]
) -> None:
    turn = start(rt, phase)
    points.wait_until_reached(PHASES[phase])
    ends_soon(turn, lambda: stop(rt, turn))
    is_sealed(rt, points)


@pytest.mark.parametrize("phase", PHASES)
def test_a_turn_that_takes_too_long_ends_wherever_it_hangs(rt: Runtime, points: BlockingPoints, phase: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(TurnTimeoutError, match=r"0\.2 s"):
        start(rt, phase, timeout=0.2).result()
    assert is_within(time.monotonic() - began_s, 0.2 + ENDS_S + MARGIN_S)
    is_sealed(rt, points)


def test_leaving_a_streamed_answer_ends_it(rt: Runtime, points: BlockingPoints) -> None:
    turn = start(rt, "model", streaming="sse")
    for event in turn:
        if event.partial:
            break
    ends_soon(turn, lambda: None)
    assert not any(event.partial or event.text == "well" for event in stored(rt))
    is_sealed(rt, points)


def test_a_turn_in_line_ends_and_the_one_before_it_goes_on(rt: Runtime, points: BlockingPoints) -> None:
    first = start(rt, "block")
    points.wait_until_reached()
    second, third, fourth = (start(rt, text) for text in ("second", "third", "fourth"))
    ends_soon(second, second.cancel)
    ends_soon(third, lambda: by_another_driver(rt, third))
    points.release()
    first.result()
    assert fourth.result().text == "hello"
    assert [event.text for event in stored(rt) if event.author == "user"] == ["block", "fourth"]


def test_one_that_interrupts_takes_the_place_of_the_one_that_runs_and_those_in_line_wait_on(
    rt: Runtime, points: BlockingPoints
) -> None:
    running = start(rt, "hang")
    points.wait_until_reached()
    waiting = [start(rt, f"waits {number}") for number in range(5)]
    assert start(rt, "now", on_concurrent_turn="interrupt").result().text == "hello"
    assert [turn.result().text for turn in waiting] == ["hello"] * 5
    with pytest.raises(TurnCancelledError):
        running.result()
    said = [event.text for event in stored(rt) if event.author == "user"]
    assert said[:2] == ["hang", "now"]
    assert sorted(said[2:]) == [f"waits {number}" for number in range(5)]


def test_however_many_interrupt_at_once_each_is_answered_or_cancelled(rt: Runtime, points: BlockingPoints) -> None:
    turns = [start(rt, f"{number}", on_concurrent_turn="interrupt") for number in range(30)]
    ended = []
    for turn in turns:
        try:
            ended.append(turn.result().text)
        except TurnCancelledError:
            ended.append("cancelled")
    assert set(ended) <= {"hello", "cancelled"}
    assert "hello" in ended
    is_sealed(rt, points)


def test_a_turn_is_cancelled_just_when_it_begins(rt: Runtime, points: BlockingPoints) -> None:
    for _ in range(20):
        turn = start(rt, "hang")
        ends_soon(turn, lambda turn=turn: turn.cancel())  # type: ignore[misc]
    is_sealed(rt, points)


def test_a_paused_turn_is_sealed_and_an_answer_comes_too_late(rt: Runtime, points: BlockingPoints) -> None:
    turn = start(rt, "ask")
    assert isinstance(turn.result().outcome, Paused)
    running = start(rt, "hang")
    points.wait_until_reached(2)
    with pytest.raises(SessionBusyError, match=running.invocation_id):
        turn.cancel()
    running.cancel()
    turn.cancel()
    turn.cancel()
    assert [response.response for response in stored(rt)[-1].function_responses()] == [CANCELLED]
    joined = rt.attach(user_id="ada", session_id="s1", invocation_id=turn.invocation_id)
    with pytest.raises(TurnCancelledError):
        joined.result()
    is_sealed(rt, points)


def test_a_turn_that_has_ended_is_left_as_it_is(rt: Runtime) -> None:
    turn = start(rt, "hi")
    assert turn.result().text == "hello"
    log = stored(rt)
    turn.cancel()
    by_another_driver(rt, turn)
    assert stored(rt) == log
    assert turn.result().text == "hello"


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
