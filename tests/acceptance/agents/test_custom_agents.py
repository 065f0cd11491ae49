"""Agents that are plain code: they run others, change state, and fail."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from actors import (
    Content,
    CustomAgent,
    Event,
    Finished,
    FunctionCall,
    FunctionResponse,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    Part,
    Paused,
    RunConfig,
    SequentialAgent,
)
from actors.errors import AgentFailedError, DefinitionError, UnknownAgentError
from actors.testing import PatternModel, ScriptedModel
from tests.support.agents.conversation_agents import ChildRunner, Impatient, StateAdder, StateReader, WrongRun
from tests.support.agents.conversation_callbacks import greet, note_run, sign
from tests.support.agents.conversation_tools import Gate
from tests.support.agents.failing_agents import SKIP
from tests.support.agents.workflow_agents import FailsBesideChild, answer, waits
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


def shown(events: list[Event]) -> list[tuple[str, str]]:
    """Author and text, call or error of each event."""
    return [(each.author, each.text or each.error_code or each.actions.transfer_to_agent or "call") for each in events]


def test_it_runs_its_children_and_learns_how_they_ended(deploy: Deploy) -> None:
    model = ScriptedModel(["one", {"transfer": "below"}, "deep", ValueError("line down")])
    second = LlmAgent(name="second", model=model, sub_agents=[LlmAgent(name="below", model=model)])
    plan = ["first", "second", "first"]
    with deploy(ChildRunner(name="root", plan=plan, sub_agents=[LlmAgent(name="first", model=model), second])) as rt:
        assert shown(run_turn(rt, "go")) == [
            ("first", "one"),
            ("root", "first: Finished"),
            ("second", "call"),
            ("second", "below"),
            ("below", "deep"),
            ("root", "second: Finished"),
            ("first", "ValueError"),
            ("root", "first: Failed"),
        ]
        seen = [content.text for content in model.requests[1].contents]
        assert seen == ["go", "For context:[first] said: one", "For context:[root] said: first: Finished"]


def test_it_sees_the_state_that_a_child_has_left(deploy: Deploy) -> None:
    writer = LlmAgent(name="writer", model=ScriptedModel(["one", "two"]), output_key="draft")
    with deploy(StateReader(name="root", sub_agents=[writer])) as rt:
        assert author_texts(run_turn(rt, "write")) == [("writer", "one"), ("root", "read: one")]
        assert author_texts(run_turn(rt, "write")) == [("writer", "two"), ("root", "read: two")]


def test_a_child_that_it_does_not_have_fails_it(deploy: Deploy) -> None:
    child = LlmAgent(name="first", model=ScriptedModel([]))
    with deploy(ChildRunner(name="root", plan=["frist"], sub_agents=[child])) as rt:
        with pytest.raises(UnknownAgentError, match=r"'frist'.*first"):
            run_turn(rt, "go")
        assert shown(stored(rt)[1:]) == [("root", "UnknownAgentError")]


def test_a_child_that_it_gives_up_is_stopped_and_another_one_goes_on(deploy: Deploy, tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def hold() -> None:
        """Hold the line."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note.write_text("stopped")
            raise

    async def nap() -> str:
        """Sleep for a while."""
        await asyncio.sleep(3)
        return "slept"

    below = LlmAgent(name="below", model=PatternModel([("", {"call": "hold"})]), tools=[hold])
    slow = LlmAgent(name="slow", model=PatternModel([("", {"transfer": "below"})]), sub_agents=[below])
    other = LlmAgent(name="other", model=PatternModel([("tool:", "rested"), ("", {"call": "nap"})]), tools=[nap])
    with deploy(Impatient(name="root", patience_s=1.5, sub_agents=[slow, other])) as rt:
        told = []
        for event in rt.run(user_id="ada", session_id="s1", message="go"):
            if event.text:
                told.append((event.author, event.text, note.exists()))
    assert told == [("root", "slow was given up", True), ("other", "rested", True)]
    assert note.read_text() == "stopped"


def test_a_child_says_nothing_behind_the_failure_of_the_code_that_runs_it(deploy: Deploy, tmp_path: Path) -> None:
    gates = []
    for name in ("breaks", "holds", "ends"):
        (tmp_path / name).mkdir()
        gates.append(Gate(tmp_path / name))
    breaks, holds, ends = gates
    code = FailsBesideChild(name="code", gate=breaks, sub_agents=[waits("child", holds)])
    try:
        with deploy(SequentialAgent(name="root", sub_agents=[code, waits("last", ends)], supervision=SKIP)) as rt:
            turn = rt.run(user_id="ada", session_id="s1", message="go")
            holds.wait_for_caller()
            breaks.open()
            ends.wait_for_caller()
            # Its thread cannot be stopped: it returns now.
            holds.open()
            ends.open()
            turn.result()
            authors = [event.author for event in stored(rt)]
    finally:
        for gate in gates:
            gate.release()
    assert authors[authors.index("code") :] == ["code", "root", "root", "last", "last", "last"]


def test_model_calls_of_children_count_for_the_turn(deploy: Deploy) -> None:
    model = ScriptedModel(["one", "two", "one", "two", "three"])
    plan = ["first", "first", "first"]
    with deploy(ChildRunner(name="root", plan=plan, sub_agents=[LlmAgent(name="first", model=model)])) as rt:
        assert shown(run_turn(rt, "go", run_config=RunConfig(max_llm_calls=2)))[-2:] == [
            ("first", "LlmCallsLimitExceededError"),
            ("root", "first: Failed"),
        ]
        assert shown(run_turn(rt, "go", run_config=RunConfig(max_llm_calls=3)))[-1] == ("root", "first: Finished")


class Stepper(CustomAgent):
    """Asks a person in its first step, and knows by the log which step is next."""

    resumes_itself = True

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        if not context.done:
            yield Event(content=Content.of_text("one", role="model"))
            call = Part(function_call=FunctionCall(id="c1", name="ask", args={}))
            yield Event(content=Content(role="model", parts=[call]), long_running_tool_ids=["c1"])
            return
        given = next(context.user_content.function_responses()).response
        yield Event(content=Content.of_text(f"after {len(context.done)}: {given}", role="model"))


def test_code_that_resumes_itself_pauses_and_goes_on_with_new_events(local: Deploy) -> None:
    root = SequentialAgent(name="root", sub_agents=[Stepper(name="steps"), LlmAgent(name="last", model=ScriptedModel(["end"]))])
    with local(root) as rt:
        assert shown(run_turn(rt, "go"))[-2:] == [("steps", "one"), ("steps", "call")]
        response = Part(function_response=FunctionResponse(id="c1", name="ask", response={"ok": True}))
        answered = run_turn(rt, Content(role="user", parts=[response]))
        said = [("steps", "after 2: {'ok': True}"), ("last", "end")]
        assert [each for each in shown(answered) if each[0] != "root"] == said


class Setter(CustomAgent):
    """Changes the state before a child runs, in a coroutine that yields no events."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await context.change_state({"tone": "grave", "old": None})
        assert context.state["tone"] == "grave"
        await context.run_agent("child")
        yield Event()


def test_it_changes_state_from_anywhere(local: Deploy) -> None:
    child = LlmAgent(name="child", model=ScriptedModel(["ok"]), instruction="Be {tone}.")
    with local(Setter(name="root", sub_agents=[child])) as rt:
        run_turn(rt, "go", state_delta={"old": 1})
        assert stored_state(rt) == {"tone": "grave", "old": None}


def test_its_state_is_seen_at_once_and_its_failure_leaves_one_event(deploy: Deploy) -> None:
    with deploy(StateAdder(name="root")) as rt:
        with pytest.raises(AgentFailedError, match=r"'root'.*KeyError.*amount"):
            run_turn(rt, "add")
        assert [(event.author, event.error_code, event.content) for event in stored(rt)[1:]] == [("root", "KeyError", None)]
        assert shown(run_turn(rt, "add", state_delta={"amount": 2}))[-1] == ("root", "total 2, last 2")
        assert shown(run_turn(rt, "add"))[-1] == ("root", "total 4, last 4")
        session = rt.sessions.get("ada", "s1")
        assert session is not None
        assert session.state == {"amount": 2, "total": 4}
        assert all("temp:last" not in event.actions.state_delta for event in session.events)


def test_a_run_that_is_no_async_generator_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(DefinitionError, match=r"Returner\.run has no yield.*`async def run\(self, context\)` and `yield`"):

        class Returner(CustomAgent):
            async def run(self, context: InvocationContext) -> Event:  # type: ignore[override]
                return Event()

    with pytest.raises(DefinitionError, match=r"Sync\.run is a generator, but no async one.*`async def run\(self, context\)`"):

        class Sync(CustomAgent):
            def run(self, context: InvocationContext) -> Iterator[Event]:  # type: ignore[override]
                yield Event()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::RuntimeWarning")
@pytest.mark.parametrize(("returned", "kind"), [("coroutine", "coroutine"), ("generator", "generator"), ("nothing", "NoneType")])
def test_what_is_seen_in_its_run_alone_fails_it_and_says_what_to_write(deploy: Deploy, returned: str, kind: str) -> None:
    with deploy(WrongRun(name="root", returned=returned)) as rt:
        with pytest.raises(AgentFailedError, match=rf"WrongRun\.run returned a {kind}: write it as `async def run"):
            run_turn(rt, "go")
        gc.collect()
        with pytest.raises(AgentFailedError, match=kind):
            run_turn(rt, "again")


def test_its_run_may_return_an_async_iterator_that_cannot_be_closed(deploy: Deploy) -> None:
    with deploy(WrongRun(name="root", returned="iterator")) as rt:
        assert shown(run_turn(rt, "go")) == [("root", "from an iterator")]


def test_its_callbacks_run_before_and_after_it(deploy: Deploy) -> None:
    signed = StateAdder(name="root", before_agent_callback=note_run, after_agent_callback=sign)
    with deploy(signed) as rt:
        run_turn(rt, "add", state_delta={"amount": 2})
        assert author_texts(stored(rt))[-2:] == [("root", "total 2, last 2"), ("root", "signed, root")]
        assert stored_state(rt)["runs"] == 1
    with deploy(StateAdder(name="root", before_agent_callback=greet, after_agent_callback=sign)) as rt:
        assert author_texts(run_turn(rt, "add")) == [("root", "before you ask")]


def ask() -> None:
    """Ask a human."""


def test_a_run_that_was_paused_goes_on_behind_what_it_has_said_and_done(deploy: Deploy) -> None:
    model = ScriptedModel(["once", {"call": "ask"}, "heard", "the end"])
    asks = LlmAgent(name="asks", model=model, tools=[LongRunningFunctionTool(ask)])
    children = [LlmAgent(name="first", model=model), asks, LlmAgent(name="last", model=model)]
    with deploy(ChildRunner(name="root", plan=["first", "asks", "last"], sub_agents=children)) as rt:
        paused = rt.run(user_id="ada", session_id="s1", message="go").result()
        assert isinstance(paused.outcome, Paused)
        assert str(replace(paused, events=[])) == repr(replace(paused, events=[]))
        assert shown(list(paused.events)) == [("first", "once"), ("root", "first: Finished"), ("asks", "call")]
        answered = rt.run(user_id="ada", session_id="s1", message=answer(rt, "asks")).result()
        assert (type(answered.outcome), answered.invocation_id) == (Finished, paused.invocation_id)
        assert shown(list(answered.events)) == [
            ("asks", "heard"),
            ("root", "asks: Finished"),
            ("last", "the end"),
            ("root", "last: Finished"),
        ]
