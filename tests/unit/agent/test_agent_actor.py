"""An agent's actor: answers of its calls, stops, and replies that come late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from actors import (
    CallbackContext,
    Event,
    EventActions,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    Part,
    ReadonlyContext,
    RunConfig,
    Tool,
    ToolContext,
    Toolset,
)
from actors.agent.actor import AgentActor
from actors.agent.environment import AgentEnvironment
from actors.layers.trees.tree import AgentTree
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.event import USER
from actors.messages.protocol.base import Ack, Stop
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.testing import PatternModel, ScriptedModel
from tests.support.any_message import decode_message
from tests.support.fixtures.runner_fixture import RunnerFixture
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


async def test_state_under_a_key_that_is_no_text_does_not_spoil_the_log(build: Build) -> None:
    def set_it(context: ToolContext) -> str:
        context.state[1] = 2  # type: ignore[index]
        return "ok"

    house = build(agent({"call": "set_it"}, "ok", "again", tools=[set_it]))
    await house.run()
    assert isinstance((await house.run())[1], p.Finished)


async def test_an_artifact_that_a_pending_call_saved_is_on_record(build: Build) -> None:
    async def ask(context: ToolContext) -> None:
        await context.save_artifact("form.txt", Part(text="please sign"))

    house = build(agent({"call": "ask"}, tools=[LongRunningFunctionTool(ask)]))
    events, _ = await house.run()
    assert [event.actions.artifact_delta for event in events] == [{}, {"form.txt": 0}]
    assert house.artifacts.keys(KEY) == ["form.txt"]


async def test_it_replies_when_its_logs_have_left_the_process() -> None:
    """Its process may end as soon as it has replied."""
    has_left = asyncio.Event()
    nothing = cast(Any, None)

    async def hand_on_logs() -> None:
        await has_left.wait()

    environment = AgentEnvironment(nothing, nothing, nothing, nothing, hand_on_logs=hand_on_logs)
    spec = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello"))).spec("root")
    stopping = asyncio.create_task(AgentActor(spec, environment, "host").receive(encode(Stop())))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    has_left.set()
    assert isinstance(decode_message(await stopping), Ack)


async def test_a_run_that_is_stopped_before_its_message_comes_is_cancelled() -> None:
    nothing = cast(Any, None)
    spec = AgentTree(LlmAgent(name="root", model=PatternModel([], default="hello"))).spec("root")
    actor = AgentActor(spec, AgentEnvironment(nothing, nothing, nothing, lambda agent, model: nothing))
    turn = p.TurnRef(SessionKey("app", "ada", "s1"), "e-1", 1, run=1)
    asked = p.StoredEvent(1, encode(Event(id="asked", author=USER)))
    assert isinstance(decode_message(await actor.receive(encode(p.StopRun(turn=turn, runs=(1,))))), Ack)
    invoke = p.Invoke(turn=turn, agent="root", user_event=asked)
    assert decode_message(await actor.receive(encode(invoke))) == p.Cancelled(agent="root")
    assert actor.figures().counts["running"] == 0


class Shared(Toolset):
    """Counts how often it is closed."""

    closed = 0

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        return ()

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("first", ["root", "other"])
async def test_a_toolset_is_closed_when_the_last_agent_that_has_used_it_stops(tmp_path: Path, first: str) -> None:
    toolset = Shared()
    other = LlmAgent(name="other", model=PatternModel([], default="hello"), tools=[toolset])
    root = LlmAgent(name="root", model=PatternModel([], default={"transfer": "other"}), tools=[toolset], sub_agents=[other])
    house = RunnerFixture(root, tmp_path)
    await house.run()
    links = dict(house.directory.live())
    for name, closed in ((first, 0), (next(name for name in links if name != first), 1)):
        await links[name].send(encode(p.Stop()))
        assert toolset.closed == closed
    await house.close()
    assert toolset.closed == 1


def own_session(house: RunnerFixture) -> SessionRef:
    """A client of the Session actor that only agents have."""
    session = SessionRef(house._session_link)
    house.directory.environment = replace(house.directory.environment, session=session)
    return session


async def test_a_turn_that_begins_before_the_reply_to_the_last_event_reads_no_more_than_that(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = build(LlmAgent(name="root", model=PatternModel([], default="hello")))
    session, may_reply = own_session(house), asyncio.Event()
    ask, asked = session.ask, list[int]()

    async def ask_and_reply_late(message: p.Request[Any]) -> Any:
        if isinstance(message, p.Fetch):
            asked.append(message.after_seq)
        reply = await ask(message)
        if isinstance(message, p.Append):
            await may_reply.wait()
        return reply

    monkeypatch.setattr(session, "ask", ask_and_reply_late)
    await house.start(subscriber="first")
    events, _ = await house.end("first")
    assert [event.text for event in events] == ["hello"]
    second = asyncio.create_task(house.run("and now?"))
    for _ in range(20):
        await asyncio.sleep(0)
    may_reply.set()
    events, outcome = await second
    assert isinstance(outcome, p.Finished)
    assert [event.text for event in events] == ["hello"]
    assert set(asked) <= {1}


async def test_a_turn_that_interrupts_another_one_does_not_read_the_log_again(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def wait_for_ever(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        if llm_request.contents[-1].text == "think":
            asked.set()
            await asyncio.Event().wait()

    model = PatternModel([], default="hello")
    house = build(LlmAgent(name="root", model=model, before_model_callback=wait_for_ever))
    session = own_session(house)
    ask = session.ask

    async def ask_without_reading(message: p.Request[Any]) -> Any:
        assert not isinstance(message, p.Fetch), f"all is known, but {message} was asked for"
        return await ask(message)

    monkeypatch.setattr(session, "ask", ask_without_reading)
    await house.run()
    await house.start("think", subscriber="first")
    await asked.wait()
    events, _ = await house.run("and now?", config=RunConfig(on_concurrent_turn="interrupt"))
    assert [event.text for event in events] == ["hello"]
