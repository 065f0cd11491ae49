"""Messages that set out at the same time may arrive in any order: a supervisor's note is in the log before what it begins.

`tests/simulation` tries this in many ways; these are the cases in which it was found, at exact messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors import AgentTool, BaseAgent, CallbackContext, Content, CustomAgent, Event, InvocationContext, LlmAgent, RunConfig
from actors.messages import protocol as p
from actors.messages.event import decode_event
from actors.testing import PatternModel
from tests.support.agents.workflow_agents import loop, seq
from tests.support.fixtures.lossy_engine import LossyEngine, Process, lossy_runtime
from tests.support.runtimes import run_turn, stored
from tests.support.vectors.vector_agents import SayingAgent


class Till:
    """Tools that count how often they ran."""

    def __init__(self) -> None:
        self.opened = 0
        self.paid = 0

    def open_till(self) -> str:
        """Open the till."""
        self.opened += 1
        return "open"

    def pay(self) -> str:
        """Pay."""
        self.paid += 1
        return "paid"

    def agent(self, **fields: Any) -> LlmAgent:
        """An agent that opens the till, pays, and says so."""
        replies: list[tuple[str, Any]] = [
            ("tool:open_till", {"call": "pay"}),
            ("tool:pay", "I have paid"),
            (".*", {"call": "open_till"}),
        ]
        return LlmAgent(name="worker", model=PatternModel(replies), tools=[self.open_till, self.pay], **fields)


class Held:
    """Holds a note of a supervisor, and loses actors, each once."""

    def __init__(self, engine: LossyEngine) -> None:
        self.engine = engine
        self._events: dict[str, asyncio.Event] = {}
        self.appends: dict[str, int] = {}
        self.is_cut = False

    def gate(self) -> asyncio.Event:
        """Set when the note may go on."""
        return self._events.setdefault("gate", asyncio.Event())

    def stored(self) -> asyncio.Event:
        """Set when the note is stored."""
        return self._events.setdefault("stored", asyncio.Event())

    def cut(self, process: Process) -> None:
        """Lose an actor, if none was lost yet."""
        if not self.is_cut:
            self.is_cut = True
            self.engine.cut(process)

    def count(self, sender: Process) -> int:
        """The number of an append among its sender's, from 1."""
        self.appends[sender.name] = self.appends.get(sender.name, 0) + 1
        return self.appends[sender.name]


def noted(message: p.Message) -> Any:
    """What the first event of an append notes."""
    return decode_event(message.events[0], 0).actions.agent_state if isinstance(message, p.Append) else None


def turn_of(root: BaseAgent, folder: Path, held: type[Held]) -> list[Event]:
    """The log after one turn."""
    rt, engine = lossy_runtime(root, folder)
    engine.meddler = held(engine)  # type: ignore[assignment]
    with rt:
        run_turn(rt, "go", run_config=RunConfig(timeout=30))
        log = stored(rt)
    assert engine.lost
    return log


def calls_and_answers(log: list[Event]) -> tuple[list[str], list[str]]:
    """The functions called, and those answered, in order. Each call has its answer."""
    made = [call for event in log for call in event.function_calls()]
    answered = [response for event in log for response in event.function_responses()]
    assert {call.id for call in made} == {response.id for response in answered}
    return [call.name for call in made], [response.name for response in answered]


class LosesTheSupervisor(Held):
    """The supervisor is lost after its child has finished, and its note never arrives."""

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        if sender.name == "agent root" and noted(message) and not handled and not self.is_cut:
            await self.engine.over.wait()
        if isinstance(message, p.RunChild) and sender.name == "agent root" and handled:
            self.cut(sender)


def test_a_child_that_has_finished_is_not_run_again_though_its_supervisors_note_was_lost(tmp_path: Path) -> None:
    till = Till()
    log = turn_of(seq("root", till.agent()), tmp_path, LosesTheSupervisor)
    assert calls_and_answers(log) == (["open_till", "pay"], ["open_till", "pay"])
    assert [event.text for event in log if event.author == "worker" and event.text] == ["I have paid"]
    assert (till.opened, till.paid) == (1, 1)


class LosesTheChild(Held):
    """The note arrives when the child's second call is in the log; the child is lost in that call."""

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        if sender.name == "agent root" and noted(message):
            if handled:
                self.stored().set()
            else:
                await self.gate().wait()
        if sender.name == "agent worker" and isinstance(message, p.Append) and not handled and self.count(sender) == 4:
            self.gate().set()
            await self.stored().wait()
            self.cut(sender)


def test_a_call_under_way_keeps_its_id_though_its_supervisors_note_came_late(tmp_path: Path) -> None:
    till = Till()
    log = turn_of(seq("root", till.agent()), tmp_path, LosesTheChild)
    assert calls_and_answers(log) == (["open_till", "pay"], ["open_till", "pay"])
    assert till.opened == 1


class LosesTheChildAsItBegins(Held):
    """In the second iteration the child is lost before it has stored anything, and before the note of its beginning is stored."""

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        note = noted(message) or {}
        if sender.name == "agent root" and (note.get("iteration"), note.get("child")) == (1, "b") and not handled:
            await self.gate().wait()
        if sender.name == "agent b" and isinstance(message, p.Append) and not handled and self.count(sender) == 2:
            self.cut(sender)
        if isinstance(message, p.AbandonRuns) and handled:
            self.gate().set()


def test_a_child_that_is_lost_as_it_begins_is_not_taken_to_have_done_what_it_did_before(tmp_path: Path) -> None:
    b = LlmAgent(name="b", model=PatternModel([], default="b is done"))
    log = turn_of(loop("root", SayingAgent(name="a", say=["a"]), b, times=2), tmp_path, LosesTheChildAsItBegins)
    assert [event.text for event in log if event.text] == ["go", "a", "b is done", "a", "b is done"]


class LosesWhoHasAsked(Held):
    """The agent that has asked another one as a tool is lost when that one has answered."""

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, p.RunChild) and handled:
            self.cut(sender)


@pytest.mark.parametrize(("both", "as_tool"), [(False, True), (True, True), (True, False)])
def test_an_agent_that_has_answered_a_call_is_not_asked_again(tmp_path: Path, both: bool, as_tool: bool) -> None:
    class LosesBoth(LosesWhoHasAsked):
        async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
            if isinstance(message, p.RunChild) and handled and not self.is_cut:
                for _, process in self.engine._directory.links.values():
                    self.engine.cut(process)
            await super().__call__(sender, message, handled)

    till = Till()
    model = PatternModel([("tool:worker", "done"), (".*", {"call": "worker", "args": {"request": "pay"}})])
    given = {"tools": [AgentTool(till.agent())]} if as_tool else {"sub_agents": [till.agent(mode="single_turn")]}
    root = LlmAgent(name="root", model=model, **given)
    log = turn_of(root, tmp_path, LosesBoth if both else LosesWhoHasAsked)
    assert calls_and_answers(log)[0] == ["worker", "open_till", "pay"]
    answer = next(response for event in log for response in event.function_responses() if response.name == "worker")
    assert answer.response == {"result": "I have paid"}
    assert (till.opened, till.paid) == (1, 1)


class AsksTwice(CustomAgent):
    """Runs its child twice."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for _ in range(2):
            await context.run_agent("a")
        yield Event(content=Content.of_text("done", role="model"))


def test_a_second_run_of_a_child_takes_nothing_from_the_first_when_the_agent_that_has_asked_for_it_was_lost(
    tmp_path: Path,
) -> None:
    root = AsksTwice(name="root", sub_agents=[LlmAgent(name="a", model=PatternModel([], default="a is done"))])
    log = turn_of(root, tmp_path, LosesWhoHasAsked)
    assert [event.text for event in log] == ["go", "a is done", "a is done", "done"]


class LosesAtTheSecondEvent(Held):
    """An agent is lost when its second event is stored."""

    async def __call__(self, sender: Process, message: p.Message, handled: bool) -> None:
        if isinstance(message, p.Append) and handled and self.count(sender) == 2:
            self.cut(sender)


def test_an_agent_whose_last_callback_has_only_written_state_has_ended(tmp_path: Path) -> None:
    def count(callback_context: CallbackContext) -> None:
        callback_context.state["ends"] = callback_context.state.get("ends", 0) + 1

    root = LlmAgent(name="root", model=PatternModel([], default="said"), after_agent_callback=count)
    log = turn_of(root, tmp_path, LosesAtTheSecondEvent)
    assert [(event.text, dict(event.actions.state_delta)) for event in log] == [("go", {}), ("said", {}), ("", {"ends": 1})]
