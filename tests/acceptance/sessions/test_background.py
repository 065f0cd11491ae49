"""Agents in the background: they work on in turns of their own, and their end is told (docs/turns.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from actors import (
    AgentTool,
    Background,
    BackgroundRun,
    CustomAgent,
    Event,
    InvocationContext,
    LlmAgent,
    RunConfig,
    ToolContext,
    ask_parent,
    tool,
)
from actors.errors import RequestError, RunNotFoundError, SessionBusyError, UnknownAgentError
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support import polling
from tests.support.agents.conversation_agents import said
from tests.support.agents.conversation_tools import Gate
from tests.support.runtimes import Deploy, stored, stored_state

until = partial(polling.until, patience_s=30)

ASK = {"call": "helper", "args": {"request": "look it up"}}


def tree(*replies: Any, helper: list[Any], tools: list[Any] | None = None, **options: Any) -> tuple[LlmAgent, ScriptedModel]:
    """A root that has a helper in the background."""
    model = ScriptedModel(list(replies))
    child = LlmAgent(name="helper", description="looks up", model=ScriptedModel(helper), tools=tools or [])
    background: bool | Background = Background(**options) if options else True
    return LlmAgent(name="root", model=model, tools=[AgentTool(child, background=background)]), model


def ask(rt: Runtime, message: str = "begin", **options: Any) -> str:
    return rt.run(user_id="ada", session_id="s1", message=message, **options).result().text


def log(rt: Runtime) -> list[str]:
    return [f"{event.author}: {event.text}" for event in stored(rt) if event.text]


def test_the_parent_goes_on_and_the_end_begins_a_turn(deploy: Deploy, gate: Gate) -> None:
    agent, model = tree(ASK, "it works on it", "it was 42", helper=[{"call": "wait"}, "42"], tools=[gate.tool()])
    with deploy(agent) as rt:
        assert ask(rt) == "it works on it"
        gate.wait_for_caller()
        gate.open()
        until(lambda: log(rt)[-1] == "root: it was 42")
        told = log(rt)[-2]
        assert told.startswith("user: Background run ")
        assert told.endswith("of helper is done. It says:\n42")
        assert len(log(rt)) == 4
        assert [session.id for session in rt.sessions.list(user_id="ada")] == ["s1"]
        names = {each.name for each in model.requests[0].tools}
        assert names == {"helper", "check_run", "steer_run", "cancel_run", "wait_for_runs"}
        [run] = rt.background.list("ada", "s1")
        assert (run.agent, run.started_by, run.status, run.result, run.error) == ("helper", "root", "done", "42", "")
        assert rt.background.get("ada", "s1", run.id) == run
        assert [f"{event.author}: {event.text}" for event in stored(rt, run.run_session_id)][-1] == "helper: 42"


def only_run(rt: Runtime) -> BackgroundRun:
    [run] = rt.background.list("ada", "s1")
    return run


def ended(rt: Runtime) -> BackgroundRun:
    """The only run, once it has ended."""
    [run] = rt.background.wait("ada", "s1", timeout_s=30)
    assert run.is_over
    return run


def answered(rt: Runtime, last: str) -> list[str]:
    """The log, once these are its last words."""
    until(lambda: log(rt)[-1:] == [last])
    return log(rt)


def test_a_turn_that_runs_reads_the_end(deploy: Deploy, gate: Gate) -> None:
    agent, model = tree(ASK, {"call": "wait"}, "so it is 42", helper=["42"])
    agent = agent.model_copy(update={"tools": [*agent.tools, gate.tool()]})
    with deploy(agent) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="begin")
        gate.wait_for_caller()
        assert ended(rt).status == "done"
        gate.open()
        assert turn.result().text == "so it is 42"
        assert "42" in model.requests[-1].contents[-1].text
        assert len([turn for turn in rt.turns.list() if turn.session_id == "s1"]) == 1


def test_waiting_for_runs_hears_their_end(deploy: Deploy) -> None:
    agent, model = tree(ASK, {"call": "wait_for_runs"}, "it was 42", helper=["42"])
    with deploy(agent) as rt:
        assert ask(rt) == "it was 42"
        [response] = model.requests[-1].contents[-1].function_responses()
        [run] = response.response["runs"]
        assert (run["agent"], run["status"], run["result"]) == ("helper", "done", "42")
        # It is not told again.
        assert len(log(rt)) == 2
        assert rt.schedules.list(user_id="ada") == []


@tool
async def listen(tool_context: ToolContext) -> str:
    """Wait for a message."""
    return (await tool_context.next_message()).text


def test_the_agent_of_a_run_hears_what_is_said_to_it(deploy: Deploy) -> None:
    agent, _ = tree(ASK, "begun", "thanks", helper=[{"call": "listen"}, "both"], tools=[listen])
    with deploy(agent) as rt:
        ask(rt)
        run = rt.background.steer("ada", "s1", only_run(rt).id, "and this")
        assert ended(rt).result == "both"
        texts = [f"{event.author}: {event.text}" for event in stored(rt, run.run_session_id) if event.text]
        assert texts == ["user: look it up", "user: and this", "helper: both"]
        with pytest.raises(RequestError, match="is done: it reads no message"):
            rt.background.steer("ada", "s1", run.id, "too late")


def test_a_run_asks_the_agent_that_has_started_it(deploy: Deploy) -> None:
    asks = {"call": "ask_parent", "args": {"question": "which one?"}}
    agent, _ = tree(ASK, "begun", "let me see", "thanks", helper=[asks, "the red one"], tools=[ask_parent])
    with deploy(agent) as rt:
        ask(rt)
        # Where no turn runs the question begins one.
        answered(rt, "root: let me see")
        rt.background.steer("ada", "s1", only_run(rt).id, "red")
        answered(rt, "root: thanks")
        run = only_run(rt)
        assert log(rt)[2] == f"user: Background run {run.id} of helper asks:\nwhich one?"
        assert run.result == "the red one"
        [response] = [each for event in stored(rt, run.run_session_id) for each in event.function_responses()]
        assert response.response == {"answer": "red"}


def test_only_a_run_has_an_agent_to_ask(local: Deploy) -> None:
    model = ScriptedModel([{"call": "ask_parent", "args": {"question": "who?"}}, "well"])
    with local(LlmAgent(name="root", model=model, tools=[ask_parent])) as rt:
        assert ask(rt) == "well"
        [response] = model.requests[-1].contents[-1].function_responses()
        assert "no background run" in response.response["error"]


class Supervisor(CustomAgent):
    """Answers the first question of a run, cancels the run when it asks again, and says what it hears of it."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        run = await context.start("helper", "look it up")
        for _ in range(3):
            message = await context.next_message()
            assert (message.sender, message.run) == ("helper", run.id)
            yield said(f"{message.status}: {message.text.partition(chr(10))[2]}")
            if message.text.endswith("which one?"):
                await context.steer_run(run.id, "red")
            elif message.status == "asks":
                await context.cancel_run(run.id)


def test_code_steers_and_cancels_the_runs_that_it_has_started(deploy: Deploy) -> None:
    asks = [{"call": "ask_parent", "args": {"question": question}} for question in ("which one?", "where?")]
    helper = LlmAgent(name="helper", model=ScriptedModel([*asks, "never"]), tools=[ask_parent])
    with deploy(Supervisor(name="root", sub_agents=[helper])) as rt:
        ask(rt)
        said = [line for line in log(rt) if line.startswith("root: ")]
        assert said == ["root: asks: which one?", "root: asks: where?", "root: cancelled: "]
        assert only_run(rt).status == "cancelled"


class Starter(CustomAgent):
    """Starts an agent below it."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.start("helper", "look it up", background=Background(on_done="wait"))
        yield said("begun")


@tool(long_running=True)
def ask_user(question: str) -> None:
    """Ask the user."""


def test_the_answer_to_a_run_continues_it_and_not_the_agent_that_runs_its_agent_elsewhere(deploy: Deploy) -> None:
    model = ScriptedModel([{"call": "ask_user", "args": {"question": "which one?"}}, "the red one"])
    with deploy(Starter(name="root", sub_agents=[LlmAgent(name="helper", model=model, tools=[ask_user])])) as rt:
        ask(rt)
        until(lambda: only_run(rt).status == "waiting")
        [call] = rt.pending(user_id="ada")
        assert rt.answer(call, "red").result().text == "the red one"
        assert ended(rt).result == "the red one"
        assert {event.author for event in stored(rt, call.session_id)} == {"user", "helper"}


def test_a_run_is_cancelled(deploy: Deploy, gate: Gate) -> None:
    agent, _ = tree(ASK, "begun", "a pity", helper=[{"call": "wait"}, "never"], tools=[gate.tool()])
    with deploy(agent) as rt:
        ask(rt)
        gate.wait_for_caller()
        rt.background.cancel("ada", "s1", only_run(rt).id)
        assert ended(rt).status == "cancelled"
        assert answered(rt, "root: a pity")[-2].endswith("of helper was cancelled.")
        # Again, it changes nothing.
        assert rt.background.cancel("ada", "s1", only_run(rt).id).status == "cancelled"


def test_a_run_that_fails_says_why(deploy: Deploy) -> None:
    agent, _ = tree(ASK, "begun", "a pity", helper=[ValueError("no network")])
    with deploy(agent) as rt:
        ask(rt)
        run = ended(rt)
        assert run.status == "failed"
        assert "no network" in run.error
        assert answered(rt, "root: a pity")[-2].endswith(f"failed: {run.error}")


def test_an_end_may_wait_for_the_next_turn(deploy: Deploy) -> None:
    agent, model = tree(ASK, "begun", "it was 42", helper=["42"], on_done="wait")
    with deploy(agent) as rt:
        ask(rt)
        ended(rt)
        assert len(log(rt)) == 2
        assert ask(rt, "well?") == "it was 42"
        assert "says:\n42" in model.requests[-1].contents[-1].text


def test_an_end_may_be_written_into_the_state(deploy: Deploy) -> None:
    agent, model = tree(ASK, "begun", "fine", helper=["42"], on_done="state")
    with deploy(agent) as rt:
        ask(rt)
        run = ended(rt)
        assert ask(rt, "well?") == "fine"
        value = {"id": run.id, "agent": "helper", "status": "done", "result": "42", "error": ""}
        assert stored_state(rt)["run:helper"] == value
        assert model.requests[-1].contents[-1].text == "well?"


def test_as_many_run_as_may(deploy: Deploy, gate: Gate) -> None:
    agent, model = tree(ASK, ASK, "one is enough", "done", helper=[{"call": "wait"}, "42"], tools=[gate.tool()], most=1)
    with deploy(agent) as rt:
        assert ask(rt) == "one is enough"
        [response] = model.requests[2].contents[-1].function_responses()
        assert "has 1 runs under way, and Background(most=1) allows no more" in response.response["error"]
        gate.open()
        ended(rt)


def test_a_run_that_has_ended_makes_room(deploy: Deploy) -> None:
    agent, _ = tree(ASK, {"call": "wait_for_runs"}, ASK, {"call": "wait_for_runs"}, "both", helper=["42", "43"], most=1)
    with deploy(agent) as rt:
        assert ask(rt) == "both"
        assert [run.result for run in rt.background.list("ada", "s1")] == ["42", "43"]


def test_a_run_starts_others_and_they_end_with_it(deploy: Deploy, gate: Gate) -> None:
    leaf = LlmAgent(name="leaf", model=ScriptedModel([{"call": "wait"}, "never"]), tools=[gate.tool()])
    helper = LlmAgent(
        name="helper",
        model=ScriptedModel([{"call": "leaf", "args": {"request": "go"}}, {"call": "wait_for_runs"}, "never"]),
        tools=[AgentTool(leaf, background=True)],
    )
    root = LlmAgent(name="root", model=ScriptedModel([ASK, "begun", "a pity"]), tools=[AgentTool(helper, background=True)])
    with deploy(root) as rt:
        ask(rt)
        gate.wait_for_caller()
        run = only_run(rt)
        [below] = rt.background.list("ada", run.run_session_id)
        assert below.agent == "leaf"
        rt.background.cancel("ada", "s1", run.id)
        assert ended(rt).status == "cancelled"
        [below] = rt.background.wait("ada", run.run_session_id, timeout_s=30)
        assert below.status == "cancelled"
        answered(rt, "root: a pity")


def test_depth_is_bounded(deploy: Deploy) -> None:
    helper = LlmAgent(name="helper", model=ScriptedModel([{"call": "start_another"}, "done"]), tools=[start_another])
    root = LlmAgent(
        name="root",
        model=ScriptedModel([ASK, {"call": "wait_for_runs"}, "ok"]),
        tools=[AgentTool(helper, background=Background(on_done="wait"))],
    )
    with deploy(root) as rt:
        assert ask(rt) == "ok"
        events = stored(rt, only_run(rt).run_session_id)
        [response] = [each for event in events for each in event.function_responses()]
        assert "would have runs 2 deep, and Background(most_depth=1) allows no more" in response.response["error"]


@tool
async def start_another(tool_context: ToolContext) -> str:
    """Start the helper again."""
    run = await tool_context.start("helper", "again", background=Background(most_depth=1))
    return run.id


def test_a_session_is_deleted_with_its_runs(deploy: Deploy, gate: Gate) -> None:
    agent, _ = tree(ASK, "begun", "told", helper=[{"call": "wait"}, "42"], tools=[gate.tool()])
    with deploy(agent) as rt:
        ask(rt)
        gate.wait_for_caller()
        run = only_run(rt)
        with pytest.raises(SessionBusyError):
            rt.sessions.delete("ada", "s1")
        gate.open()
        answered(rt, "root: told")
        rt.sessions.delete("ada", "s1")
        assert stored(rt, run.run_session_id) == stored(rt) == []
        assert rt.background.list("ada", "s1") == []


def test_a_message_may_be_addressed_to_an_agent(deploy: Deploy) -> None:
    below = LlmAgent(name="below", model=ScriptedModel(["I am below"]), disallow_transfer_to_parent=True)
    helper = LlmAgent(name="helper", model=ScriptedModel(["I help"]))
    root = LlmAgent(name="root", model=ScriptedModel(["I am root"]), sub_agents=[below], tools=[AgentTool(helper)])
    with deploy(root) as rt:
        for agent, said in (("helper", "I help"), ("below", "I am below"), ("", "I am root")):
            assert ask(rt, run_config=RunConfig(agent=agent)) == said
        with pytest.raises(UnknownAgentError, match="helpr"):
            ask(rt, run_config=RunConfig(agent="helpr"))
        with pytest.raises(RunNotFoundError, match="no background run 'x'"):
            rt.background.get("ada", "s1", "x")
