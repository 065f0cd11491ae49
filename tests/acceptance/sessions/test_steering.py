"""Messages to an agent that is at work: read before its next model call, or answered by a turn of their own (semantics.md 2).

Tools that are cancelled when a message comes for their agent (docs/turns.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors import (
    AgentTool,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    ToolContext,
    tool,
)
from actors.errors import DefinitionError, TurnCancelledError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.agents.conversation_agents import said
from tests.support.agents.conversation_tools import Gate, forever
from tests.support.models.waiting_model import GatedModel
from tests.support.runtimes import Deploy, stored, stored_state

STEER = RunConfig(on_concurrent_turn="steer")


@tool
async def listen(tool_context: ToolContext) -> str:
    """Wait for a message."""
    return f"heard: {(await tool_context.next_message()).text}"


class Listener(CustomAgent):
    """Says how many messages have come, and then the next two."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield said(str(len(await context.steering())))
        for _ in range(2):
            yield said((await context.next_message()).text)


def worker(gate: Gate, *replies: Any, name: str = "root") -> tuple[LlmAgent, ScriptedModel]:
    """An agent that waits at the gate, and then gives the replies."""
    model = ScriptedModel([{"call": "wait"}, *replies])
    return LlmAgent(name=name, model=model, tools=[gate.tool()]), model


def start(rt: Runtime, message: str, **options: Any) -> Turn:
    return rt.run(user_id="ada", session_id="s1", message=message, **options)


def at_gate(rt: Runtime, gate: Gate) -> Turn:
    """A turn whose tool waits at the gate."""
    turn = start(rt, "begin")
    gate.wait_for_caller()
    return turn


def steer(rt: Runtime, message: str, **options: Any) -> Turn:
    """A message to the turn that runs, which has been accepted."""
    turn = start(rt, message, run_config=STEER, **options)
    assert turn.steered is not None
    return turn


def log(rt: Runtime) -> list[str]:
    """The texts of the log, and who has read them."""
    events = [event for event in stored(rt) if event.text]
    return [f"{event.author}: {event.text}" + _reader(event.custom_metadata or {}) for event in events]


def _reader(metadata: dict[str, Any]) -> str:
    return f" ({metadata['steered']})" if "steered" in metadata else ""


def texts(model: ScriptedModel, call: int) -> list[str]:
    """The texts of a request."""
    return [content.text for content in model.requests[call].contents if content.text]


def test_the_next_model_call_sees_it_and_the_turn_answers_both(deploy: Deploy, gate: Gate) -> None:
    agent, model = worker(gate, "both done")
    with deploy(agent) as rt:
        first = at_gate(rt, gate)
        second = steer(rt, "this too")
        assert second.invocation_id == first.invocation_id
        gate.open()
        assert first.result().text == second.result().text == "both done"
        assert log(rt) == ["user: begin", "user: this too (root)", "root: both done"]
        assert texts(model, 1) == ["begin", "this too"]
        read = second.steered
        assert read is not None
        assert (read.invocation_id, read.agent, read.seq) == (first.invocation_id, "root", 4)
        # What is said next is a turn of its own, and no schedule is left.
        assert rt.schedules.list(user_id="ada") == []
        assert [turn.state for turn in rt.turns.list()] == ["finished"]


def test_several_are_read_in_their_order(deploy: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    with deploy(agent) as rt:
        first = at_gate(rt, gate)
        said = [steer(rt, f"m{number}") for number in range(4)]
        gate.open()
        assert {turn.result().text for turn in (first, *said)} == {"done"}
        assert log(rt) == ["user: begin", *(f"user: m{number} (root)" for number in range(4)), "root: done"]


def test_without_a_turn_that_runs_it_is_a_message_like_any_other(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel(["one", "two"]))) as rt:
        first = start(rt, "a", run_config=STEER)
        assert (first.result().text, start(rt, "b", run_config=STEER).result().text) == ("one", "two")
        assert first.steered is None
        assert len(log(rt)) == 4


def test_what_one_program_says_comes_in_its_order_whether_a_turn_runs_or_not(deploy: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done", "done")
    with deploy(agent) as rt:
        begun = start(rt, "begin", run_config=STEER)
        # It is sent before the first one can have begun its turn.
        more = [start(rt, "more", run_config=STEER), start(rt, "next")]
        gate.wait_for_caller()
        steer(rt, "last")
        gate.open()
        assert [turn.result().text for turn in (begun, *more)] == ["done"] * 3
        said = ["user: begin", "user: more (root)", "user: last (root)", "root: done", "user: next", "root: done"]
        assert log(rt) == said


def test_what_no_model_has_read_begins_a_turn_of_its_own(deploy: Deploy, tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "said")
    with deploy(LlmAgent(name="root", model=model)) as rt:
        first = start(rt, "begin")
        model.wait_until_called()
        second = steer(rt, "late")
        model.release()
        assert first.result().text == "said"
        model.wait_until_called()
        model.release()
        assert second.result().text == "said"
        assert second.steered is None
        assert second.invocation_id != first.invocation_id
        assert log(rt) == ["user: begin", "root: said", "user: late", "root: said"]
        assert len({event.invocation_id for event in stored(rt)}) == 2


def test_every_branch_sees_it_once(deploy: Deploy, tmp_path: Path) -> None:
    gates = {name: Gate(_made(tmp_path / name)) for name in ("left", "right")}
    ways = [worker(gate, f"{name} done", name=name) for name, gate in gates.items()]
    with deploy(ParallelAgent(name="root", sub_agents=[agent for agent, _ in ways])) as rt:
        turn = start(rt, "begin")
        for gate in gates.values():
            gate.wait_for_caller()
        steer(rt, "both of you")
        for gate in gates.values():
            gate.open()
        turn.result()
        assert [texts(model, 1).count("both of you") for _, model in ways] == [1, 1]
        assert [line.partition(" (")[0] for line in log(rt)].count("user: both of you") == 1


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_an_agent_that_begins_later_in_the_turn_sees_it(deploy: Deploy, tmp_path: Path) -> None:
    first, last = GatedModel(tmp_path, "first done"), ScriptedModel(["last done"])
    agents = [LlmAgent(name="one", model=first), LlmAgent(name="two", model=last)]
    with deploy(SequentialAgent(name="root", sub_agents=agents)) as rt:
        turn = start(rt, "begin")
        first.wait_until_called()
        steered = steer(rt, "more")
        first.release()
        assert turn.result().text == "last done"
        assert texts(last, 0)[-1] == "more"
        assert steered.steered is not None
        assert steered.steered.agent == "two"


def test_a_request_that_is_sent_again_is_answered_once(deploy: Deploy, gate: Gate) -> None:
    agent, model = worker(gate, "done", "again?")
    with deploy(agent) as rt:
        first = at_gate(rt, gate)
        one, other = steer(rt, "m", invocation_id="mine"), steer(rt, "m", invocation_id="mine")
        gate.open()
        assert {turn.result().text for turn in (first, one, other)} == {"done"}
        late = start(rt, "m", invocation_id="mine", run_config=STEER)
        assert late.result().text == "done"
        assert late.invocation_id == first.invocation_id
        assert log(rt) == ["user: begin", "user: m (root)", "root: done"]
        assert model.remaining == 1


def test_a_turn_that_is_cancelled_leaves_it_to_a_turn_of_its_own(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "forever"}, "here I am"])
    with deploy(LlmAgent(name="root", model=model, tools=[forever])) as rt:
        first = start(rt, "begin")
        events = iter(first)
        assert any(next(events).function_calls())
        second = steer(rt, "hello?")
        first.cancel()
        with pytest.raises(TurnCancelledError):
            list(events)
        assert second.result().text == "here I am"
        assert log(rt) == ["user: begin", "user: hello?", "root: here I am"]


def test_leaving_a_turn_that_was_given_a_message_does_not_cancel_it(deploy: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    with deploy(agent) as rt:
        first = at_gate(rt, gate)
        events = iter(steer(rt, "m"))
        gate.open()
        next(events)
        events.close()  # type: ignore[attr-defined]
        assert first.result().text == "done"


def test_state_that_comes_with_it_is_set_when_it_is_read(deploy: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    with deploy(agent) as rt:
        first = at_gate(rt, gate)
        steer(rt, "m", state_delta={"mood": "calm"})
        gate.open()
        first.result()
        assert stored_state(rt) == {"mood": "calm"}


async def test_scripts_on_an_event_loop_have_it_too(deploy: Deploy, gate: Gate) -> None:
    agent, _ = worker(gate, "done")
    async with deploy(agent) as rt:
        first = start(rt, "begin")
        await asyncio.to_thread(gate.wait_for_caller)
        second = start(rt, "m", run_config=STEER)
        waiting = await second.aio.steered()
        assert waiting is not None
        assert waiting.agent == ""
        gate.open()
        assert (await second).text == (await first).text == "done"


def test_a_tool_that_waits_for_a_message_gets_it_and_the_model_sees_it_too(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "listen"}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[listen])) as rt:
        first = start(rt, "begin")
        events = iter(first)
        next(events)
        second = steer(rt, "stop there")
        results = [response.response for event in events for response in event.function_responses()]
        assert results == [{"result": "heard: stop there"}]
        assert texts(model, 1) == ["begin", "stop there"]
        assert second.result().text == "done"


def test_a_custom_agent_reads_what_has_come(deploy: Deploy) -> None:
    with deploy(Listener(name="root")) as rt:
        events = iter(start(rt, "begin"))
        assert next(events).text == "0"
        steer(rt, "one")
        assert next(events).text == "one"
        steer(rt, "two")
        assert next(events).text == "two"
        assert list(events) == []
        assert log(rt) == ["user: begin", "root: 0", "user: one (root)", "root: one", "user: two (root)", "root: two"]


def test_the_agent_of_a_tool_works_on_and_its_caller_reads_it(deploy: Deploy, gate: Gate) -> None:

    helper, inner = worker(gate, "helped", name="helper")
    outer = ScriptedModel([{"call": "helper", "args": {"request": "help"}}, "all done"])
    with deploy(LlmAgent(name="root", model=outer, tools=[AgentTool(helper)])) as rt:
        first = at_gate(rt, gate)
        second = steer(rt, "m")
        gate.open()
        assert first.result().text == second.result().text == "all done"
        assert "m" not in texts(inner, 1)
        assert texts(outer, 1)[-1] == "m"


CALLS = {"parts": [{"call": "forever"}, {"call": "wait"}]}


def results(rt: object) -> list[object]:
    return [each.response for event in stored(rt) for each in event.function_responses()]  # type: ignore[arg-type]


def test_a_message_cancels_the_tools_that_run(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel([CALLS, "stopped"])
    with deploy(LlmAgent(name="root", model=model, tools=[forever, gate.tool()], interrupt_tools=True)) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        steer(rt, "stop that")
        assert turn.result().text == "stopped"
        assert results(rt) == [{"error": "interrupted by a message: stop that"}] * 2
        assert log(rt) == ["user: begin", "user: stop that (root)", "root: stopped"]
        assert any(content.text == "stop that" for content in model.requests[1].contents)


def test_only_those_that_are_named(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel([CALLS, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[forever, gate.tool()], interrupt_tools=["forever"])) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        steer(rt, "stop that")
        gate.open()
        assert turn.result().text == "done"
        interrupted, waited = results(rt)
        assert interrupted == {"error": "interrupted by a message: stop that"}
        assert waited != interrupted


def test_without_a_message_they_end_by_themselves(deploy: Deploy, gate: Gate) -> None:
    model = ScriptedModel([{"call": "wait"}, "done"])
    with deploy(LlmAgent(name="root", model=model, tools=[gate.tool()], interrupt_tools=True)) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        gate.open()
        assert turn.result().text == "done"
        assert log(rt) == ["user: begin", "root: done"]


def test_a_tool_that_it_does_not_have_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"no tool 'forevr'\. Did you mean 'forever'"):
        LlmAgent(name="root", model=ScriptedModel([]), tools=[forever], interrupt_tools=["forevr"])


def test_the_end_of_a_background_run_cancels_none(deploy: Deploy, gate: Gate) -> None:
    helper = LlmAgent(name="helper", description="helps", model=ScriptedModel(["42"]))
    model = ScriptedModel([{"call": "helper", "args": {"request": "go"}}, {"call": "wait"}, "it is 42"])
    tools = [gate.tool(), AgentTool(helper, background=True)]
    with deploy(LlmAgent(name="root", model=model, tools=tools, interrupt_tools=True)) as rt:
        turn = start(rt, "begin")
        gate.wait_for_caller()
        [run] = rt.background.wait("ada", "s1")
        assert rt.background.get("ada", "s1", run) == run
        gate.open()
        assert turn.result().text == "it is 42"
        assert "error" not in results(rt)[1]  # type: ignore[operator]
