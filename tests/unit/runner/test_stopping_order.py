"""Runs are stopped all at once, and any of them may be the first to end: what asked for it is none the wiser for that.

Between processes the order is luck. Here the message that stops the asking run is held up until its child has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from actors import (
    AgentTool,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    Flow,
    FlowAgent,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    Supervision,
    Task,
    ToolContext,
    tool,
)
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.refs import AgentRef
from actors.testing import PatternModel, ScriptedModel
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.separate_actors import Ways
from tests.support.fixtures.session_fixture import KEY, settled


class Hang:
    """A tool that never returns; it tells when it has begun, and when it was stopped."""

    def __init__(self) -> None:
        self.begun, self.stopped = asyncio.Event(), asyncio.Event()

    async def hang(self) -> None:
        """Hang."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


class Stubborn(CustomAgent):
    """Runs its child, and speaks whatever comes of it."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        said = "no word"
        try:
            said = str(await context.run_agent("child"))
        except Exception as error:
            said = repr(error)
        yield Event(content=Content.of_text(said, role="model"))


@tool
async def ask_it(tool_context: ToolContext) -> str:
    """Ask the child, whatever comes of it."""
    try:
        return str(await tool_context.ask_agent("child", Content.of_text("why?")))
    except Exception as error:
        return repr(error)


SKIP = Supervision(strategy="skip")


def child_of(hang: Hang) -> LlmAgent:
    return LlmAgent(name="child", model=PatternModel([], default={"call": "hang"}), tools=[hang.hang])


def asks(call: str, **args: str) -> PatternModel:
    return PatternModel([("go", {"call": call, "args": args})], default="I go on")


ASKERS: dict[str, Callable[[LlmAgent], BaseAgent]] = {
    "agent_tool": lambda child: LlmAgent(name="asker", model=asks("child", request="why?"), tools=[AgentTool(child)]),
    "own_tool": lambda child: LlmAgent(name="asker", model=asks("ask_it"), tools=[ask_it, AgentTool(child)]),
    "sequential": lambda child: SequentialAgent(name="asker", sub_agents=[child, last()], supervision=SKIP),
    "loop": lambda child: LoopAgent(name="asker", sub_agents=[child, last()], supervision=SKIP, max_iterations=3),
    "parallel": lambda child: ParallelAgent(name="asker", sub_agents=[child, last()], supervision=SKIP),
    "custom": lambda child: Stubborn(name="asker", sub_agents=[child]),
    "flow": lambda child: FlowAgent(Flow([Task("do", name="do")], agents=[child], name="asker")),
}


def last() -> LlmAgent:
    return LlmAgent(name="last", model=PatternModel([], default="the end"))


@pytest.fixture
def ways() -> Ways:
    return Ways()


@pytest.fixture
async def hang() -> Hang:
    return Hang()


@pytest.fixture
async def house(request: pytest.FixtureRequest, tmp_path: Path, hang: Hang, ways: Ways) -> AsyncIterator[RunnerFixture]:
    made = RunnerFixture(ASKERS[request.param](child_of(hang)), tmp_path, ways=ways)
    yield made
    await made.close()


async def by_cancel(house: RunnerFixture) -> asyncio.Task[object]:
    return asyncio.create_task(house.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1")))


async def by_interrupt(house: RunnerFixture) -> asyncio.Task[object]:
    return asyncio.create_task(house.start("hi", turn="e-2", config=RunConfig(on_concurrent_turn="interrupt", timeout=5)))


async def is_sealed(house: RunnerFixture) -> None:
    """After the child was told to do what hangs, the log has nothing but the answers to the open calls."""
    log = [event for event in await house.log() if event.invocation_id == "e-1"]
    at = max(index for index, event in enumerate(log) if event.author == "child" and any(event.function_calls()))
    later = [event for event in log[at + 1 :] if event.author != "last"]
    assert [(answer.name, answer.response) for event in later for answer in event.function_responses()] == [
        (call.name, {"error": "cancelled"}) for event in log for call in event.function_calls()
    ]
    assert not [event for event in later if event.text or event.error_code or event.actions.agent_state or event.flow]


@pytest.mark.parametrize("stop", [by_cancel, by_interrupt])
@pytest.mark.parametrize("house", ASKERS, indirect=True)
async def test_a_run_hears_of_its_own_end_before_that_of_its_child(
    house: RunnerFixture, ways: Ways, hang: Hang, stop: Callable[[RunnerFixture], object]
) -> None:
    await house.start("go")
    await hang.begun.wait()
    await settled()
    gate = ways.hold("asker", p.StopRun)
    stopping = await stop(house)  # type: ignore[misc]
    await hang.stopped.wait()
    await settled()
    gate.open()
    _, outcome = await house.end("e-1")
    assert isinstance(outcome, p.Cancelled)
    await is_sealed(house)
    stopping.cancel()


async def test_a_run_that_is_stopped_before_it_arrives_never_begins(tmp_path: Path, ways: Ways) -> None:
    model = ScriptedModel(["too late", "hello"])
    house = RunnerFixture(LlmAgent(name="root", model=model), tmp_path, ways=ways)
    gate = ways.hold("root", p.Invoke)
    await house.start("go")
    await gate.reached.wait()
    await house.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1"))
    assert isinstance((await house.end("e-1"))[1], p.Cancelled)
    gate.open()
    events, _ = await house.run("again")
    assert [event.text for event in events if event.text] == ["too late"]
    assert len(model.requests) == 1
    await house.close()


class Limits:
    """Ends the time of turns when a test says so: a real one may be over before the agent has begun."""

    TURN_S = 1_234.5

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._of_turns: list[asyncio.Timeout] = []
        self._timeout = asyncio.timeout
        monkeypatch.setattr(asyncio, "timeout", self._noted)

    def _noted(self, delay_s: float | None) -> asyncio.Timeout:
        made = self._timeout(delay_s)
        if delay_s == self.TURN_S:
            self._of_turns.append(made)
        return made

    def end(self) -> None:
        """The time of the turn is over."""
        (limit,) = self._of_turns
        limit.reschedule(asyncio.get_running_loop().time())


async def test_a_turn_that_is_cancelled_while_its_timeout_stops_it_ends(
    tmp_path: Path, ways: Ways, hang: Hang, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(monkeypatch)
    house = RunnerFixture(ASKERS["sequential"](child_of(hang)), tmp_path, ways=ways)
    gate = ways.hold("asker", p.StopRun)
    await house.start("go", config=RunConfig(timeout=limits.TURN_S))
    await hang.begun.wait()
    limits.end()
    await hang.stopped.wait()
    cancelling = asyncio.create_task(house.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1")))
    await settled()
    gate.open()
    async with asyncio.timeout(20):
        await cancelling
        _, outcome = await house.end("e-1")
    assert isinstance(outcome, p.Cancelled)
    assert outcome.timeout_s == limits.TURN_S
    await house.close()


async def test_a_branch_that_is_stopped_says_nothing_of_the_end_of_those_below_it(tmp_path: Path, ways: Ways, hang: Hang) -> None:
    async def fall(_: object) -> None:
        await hang.begun.wait()
        raise ValueError("kaput")

    other = LlmAgent(name="other", model=PatternModel([], default="never"), before_agent_callback=fall)
    root = ParallelAgent(name="both", sub_agents=[ASKERS["agent_tool"](child_of(hang)), other])
    house = RunnerFixture(root, tmp_path, ways=ways)
    gate = ways.hold("asker", p.StopRun)
    await house.start("go")
    await hang.stopped.wait()
    await settled()
    gate.open()
    _, outcome = await house.end("e-1")
    assert isinstance(outcome, p.Failed)
    said = [event for event in await house.log() if event.author == "asker"]
    assert [bool(list(event.function_calls())) for event in said] == [True]
    await house.close()


async def test_a_run_that_is_given_up_hears_nothing_of_those_that_it_has_asked_for(
    tmp_path: Path, ways: Ways, hang: Hang
) -> None:
    asker = ASKERS["agent_tool"](child_of(hang))
    house = RunnerFixture(asker, tmp_path, ways=ways)
    await house.start("go")
    await hang.begun.wait()
    hang.begun.clear()
    ways.cut("asker")
    async with asyncio.timeout(20):
        # The new run makes the same call again, since the log has no answer to it.
        await hang.begun.wait()
    await house.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1"))
    answers = [answer for event in await house.log() if event.author == "asker" for answer in event.function_responses()]
    assert [answer.response for answer in answers] == [{"error": "cancelled"}]
    await house.close()


async def test_a_turn_that_is_rewound_after_it_was_stopped_before_it_began_runs_under_its_id(tmp_path: Path, ways: Ways) -> None:
    fixture = RunnerFixture(LlmAgent(name="root", model=ScriptedModel(["said"])), tmp_path, ways=ways)
    gate = ways.hold("root", p.Invoke)
    await fixture.start(turn="e-1")
    await gate.reached.wait()
    await fixture.runner.ask(p.CancelTurn(key=KEY, invocation_id="e-1"))
    gate.open()
    await settled()
    await fixture.session.ask(RewindRequest(key=KEY, invocation_id="e-1"))
    await fixture.start(turn="e-1", subscriber="again")
    events, outcome = await fixture.end("again")
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["said"]
    await fixture.close()


async def test_a_message_that_stops_a_run_of_another_epoch_stops_none_of_this_one(tmp_path: Path, ways: Ways) -> None:
    called, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        called.set()
        await may_go_on.wait()
        return "waited"

    fixture = RunnerFixture(
        LlmAgent(name="root", model=ScriptedModel([{"call": "wait"}, "said"]), tools=[wait]), tmp_path, ways=ways
    )
    await fixture.start(turn="e-1")
    await called.wait()
    agent = AgentRef(await fixture.directory.link("root", KEY))
    generation = (await fixture.session.ask(p.Fetch(key=KEY))).generation
    for epoch, of_log in ((0, generation), (2, generation), (1, "another")):
        await agent.ask(p.StopRun(turn=p.TurnRef(KEY, "e-1", epoch, generation=of_log), runs=(1,)))
    may_go_on.set()
    events, outcome = await fixture.end("e-1")
    assert isinstance(outcome, p.Finished)
    assert events[-1].text == "said"
    await fixture.close()


async def test_a_turn_that_is_being_cancelled_ends_also_when_the_runner_leaves_its_turns(
    tmp_path: Path, ways: Ways, hang: Hang
) -> None:
    house = RunnerFixture(child_of(hang), tmp_path, ways=ways)
    await house.start("go")
    await hang.begun.wait()
    gate = ways.hold("child", p.StopRun)
    cancelling = await by_cancel(house)
    await gate.reached.wait()
    leaving = asyncio.create_task(house.runner.stop(leave_turns=True))
    await settled()
    gate.open()
    await asyncio.gather(cancelling, leaving)
    async with asyncio.timeout(10):
        assert isinstance((await house.end("e-1"))[1], p.Cancelled)
    await house.close()
