"""An agent's actor: its step loop, its tools, its callbacks and its failures (semantics.md section 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pydantic
import pytest

from actors import (
    AgentTool,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    Part,
    RunConfig,
    ToolContext,
)
from actors.errors import RaygroveError
from actors.messages import protocol as p
from actors.testing import ScriptedModel
from tests.support.fixtures.log_events import resp
from tests.support.fixtures.runner_fixture import RunnerFixture
from tests.support.fixtures.separate_actors import Ways
from tests.support.fixtures.session_fixture import KEY

Build = Callable[..., RunnerFixture]


def agent(*replies: Any, **more: Any) -> LlmAgent:
    return LlmAgent(name="root", model=ScriptedModel(list(replies)), **more)


def answers(events: list[Event]) -> list[dict[str, Any]]:
    return [answer.response for event in events for answer in event.function_responses()]


async def one(context: ToolContext) -> int:
    context.state["by"] = "one"
    context.state["one"] = 1
    return 1


def two(context: ToolContext) -> dict[str, Any]:
    context.state["by"] = "two"
    context.actions.escalate = True
    return {"two": 2}


def bad() -> None:
    raise ValueError("kaput")


async def test_all_calls_of_a_response_are_answered_in_one_event_in_their_order(build: Build) -> None:
    house = build(
        agent({"parts": [{"call": "one"}, {"call": "two"}, {"call": "bad"}, {"call": "tow"}]}, "ok", tools=[one, two, bad])
    )
    events, _ = await house.run()
    assert [event.author for event in events] == ["root"] * 3
    *told, unknown = answers(events)
    assert told == [{"result": 1}, {"two": 2}, {"error": "ValueError: kaput"}]
    assert unknown["error"].endswith("there is no tool 'tow'. Did you mean 'two'? Available tools: one, two, bad")
    assert events[1].actions == EventActions(state_delta={"by": "two", "one": 1}, escalate=True)
    assert [call.id for call in events[0].function_calls()] == [answer.id for answer in events[1].function_responses()]
    assert len({call.id for call in events[0].function_calls()}) == 4
    assert await house.state() == {"by": "two", "one": 1}


@pytest.mark.parametrize("result", [{1: "a"}, {"x": {2: 3}}, (1, 2), {3}, pydantic.RootModel[int](4), b"\xff", None])
async def test_whatever_a_tool_returns_the_log_can_be_read_again(build: Build, result: Any) -> None:
    async def odd() -> Any:
        return result

    house = build(agent({"call": "odd"}, "ok", "again", tools=[odd]))
    await house.run()
    _, outcome = await house.run()
    assert isinstance(outcome, p.Finished)
    assert len(await house.log()) == 6


@pytest.mark.parametrize(("result", "told"), [(open, str(open)), ([{(1, 2): 3}], [{"(1, 2)": 3}]), (2**70, str(2**70))])
async def test_a_result_that_json_does_not_know_is_told_as_json(build: Build, result: Any, told: Any) -> None:
    async def odd(context: ToolContext) -> Any:
        context.state["x"] = 1
        return result

    house = build(agent({"call": "odd"}, "ok", tools=[odd]))
    events, outcome = await house.run()
    assert isinstance(outcome, p.Finished)
    assert answers(events)[0] == {"result": told}
    assert await house.state() == {"x": 1}


async def test_state_under_a_key_that_is_no_text_does_not_spoil_the_log(build: Build) -> None:
    def set_it(context: ToolContext) -> str:
        context.state[1] = 2  # type: ignore[index]
        return "ok"

    house = build(agent({"call": "set_it"}, "ok", "again", tools=[set_it]))
    await house.run()
    assert isinstance((await house.run())[1], p.Finished)


@pytest.mark.parametrize("hook", ["before_tool_callback", "after_tool_callback"])
async def test_a_callback_of_a_tool_that_fails_fails_the_run_under_its_own_name(build: Build, hook: str) -> None:
    def breaks(*_: Any) -> None:
        raise KeyError("lost")

    house = build(agent({"parts": [{"call": "one"}, {"call": "two"}]}, tools=[one, two], **{hook: breaks}))
    events, outcome = await house.run()
    assert (events[-1].author, events[-1].content, events[-1].error_code) == ("root", None, "KeyError")
    assert isinstance(outcome, p.Failed)
    assert (outcome.error_code, outcome.error_args) == ("KeyError", None)


async def test_a_model_that_fails_leaves_one_event_and_the_next_turn_works(build: Build) -> None:
    house = build(agent(ValueError("no"), "fine"))
    events, outcome = await house.run()
    assert [(event.error_code, event.error_message, event.content) for event in events] == [("ValueError", "no", None)]
    assert isinstance(outcome, p.Failed)
    assert (await house.run())[0][0].text == "fine"


async def test_an_error_whose_facts_cannot_travel_reaches_the_driver_all_the_same(build: Build) -> None:
    house = build(agent(RaygroveError(object), "fine"))
    events, outcome = await house.run()
    assert events[-1].error_code == "RaygroveError"
    assert isinstance(outcome, p.Failed)
    assert (await house.run())[0][0].text == "fine"


async def test_a_long_running_call_pauses_and_its_answer_resumes_the_same_turn(build: Build) -> None:
    async def ask(context: ToolContext) -> None:
        context.state["asked"] = True

    root = agent({"parts": [{"call": "ask"}, {"call": "one"}]}, "done", tools=[LongRunningFunctionTool(ask), one])
    house = build(root)
    events, outcome = await house.run(turn="e-1")
    call = next(events[0].function_calls())
    assert list(events[0].long_running_tool_ids) == [call.id]
    assert isinstance(outcome, p.Paused)
    assert outcome.call_ids == (call.id,)
    assert answers(events) == [{"result": 1}]
    assert (await house.state())["asked"]
    events, outcome = await house.run(Content(parts=[resp(call.id, "yes", "ask")]), turn="e-2")
    assert {event.invocation_id for event in events} == {"e-1"}
    assert isinstance(outcome, p.Finished)


async def test_an_artifact_that_a_pending_call_saved_is_on_record(build: Build) -> None:
    async def ask(context: ToolContext) -> None:
        await context.save_artifact("form.txt", Part(text="please sign"))

    house = build(agent({"call": "ask"}, tools=[LongRunningFunctionTool(ask)]))
    events, _ = await house.run()
    assert [event.actions.artifact_delta for event in events] == [{}, {"form.txt": 0}]
    assert house.artifacts.keys(KEY) == ["form.txt"]


async def test_the_output_is_kept_under_its_key_without_thoughts(build: Build) -> None:
    house = build(agent({"parts": [{"thought": "hm"}, "forty", "-two"]}, output_key="out"))
    events, _ = await house.run()
    assert events[-1].actions.state_delta == {"out": "forty-two"}


class Price(pydantic.BaseModel):
    amount: int
    note: str | None = None


async def test_the_output_fits_its_schema_or_the_run_fails(build: Build) -> None:
    house = build(agent('{"amount": "7"}', '{"amount": "x"}', output_key="out", output_schema=Price))
    await house.run()
    assert await house.state() == {"out": {"amount": 7}}
    events, outcome = await house.run()
    assert isinstance(outcome, p.Failed)
    assert events[-1].error_code == "OutputSchemaError"
    assert "amount" in str(events[-1].error_message)


async def test_state_that_a_callback_writes_rides_on_the_event_it_belongs_to(build: Build) -> None:
    def before(context: CallbackContext) -> None:
        context.state["n"] = context.state.get("n", 0) + 1
        context.state["temp:t"] = 1

    def after_model(context: CallbackContext, response: Any) -> None:
        context.state["seen"] = context.state["temp:t"]

    house = build(agent("ok", before_agent_callback=before, after_model_callback=after_model))
    events, _ = await house.run()
    assert [event.actions.state_delta for event in events] == [{"n": 1}, {"seen": 1}]
    assert await house.state() == {"n": 1, "seen": 1}


async def test_content_of_before_agent_is_the_run_and_counts_as_its_output(build: Build) -> None:
    house = build(agent(output_key="out", before_agent_callback=lambda _: "early", after_agent_callback=lambda _: "never"))
    events, outcome = await house.run()
    assert [(event.author, event.text) for event in events] == [("root", "early")]
    assert isinstance(outcome, p.Finished)
    assert await house.state() == {"out": "early"}


async def test_the_first_result_of_a_list_of_callbacks_counts(build: Build) -> None:
    seen: list[int] = []
    house = build(agent(before_model_callback=[lambda *_: seen.append(1), lambda *_: "two", lambda *_: seen.append(3)]))
    events, _ = await house.run(config=RunConfig(max_llm_calls=1))
    assert (seen, events[0].text) == ([1], "two")


async def test_a_custom_agent_that_yields_something_else_than_events_fails(build: Build) -> None:
    class Odd(CustomAgent):
        async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
            yield Event(content=Content.of_text("pre", "model"))
            yield "x"  # type: ignore[misc]

    events, outcome = await build(Odd(name="odd")).run()
    assert [(event.author, event.text, event.error_code) for event in events] == [("odd", "pre", None), ("odd", "", "TypeError")]
    assert isinstance(outcome, p.Failed)


@pytest.mark.parametrize("lost", ["session", "runner"])
async def test_the_loss_of_another_actor_is_no_failure_of_an_agent(tmp_path: Path, lost: str) -> None:
    """Whichever of its messages finds the actor gone: the turn will be resumed."""
    for at in count():
        folder = tmp_path / f"{at}"
        folder.mkdir()
        helper = LlmAgent(name="helper", model=ScriptedModel(["because"]), output_key="reason")
        calls = {"parts": [{"call": "one"}, {"call": "helper", "args": {"request": "why?"}}]}
        ways = Ways()
        ways.lose(lost, at)
        house = RunnerFixture(agent(calls, "ok", tools=[one, AgentTool(helper)]), folder, ways=ways)
        await house.run()
        assert [event.error_code for event in await house.log() if event.error_code] == []
        await house.close()
        if not ways.has_lost(lost):
            assert at > 1
            return
