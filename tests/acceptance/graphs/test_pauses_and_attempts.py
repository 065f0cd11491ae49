"""Graphs that wait for the user, are tried again, or take too long (semantics.md section 8)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import (
    START,
    BaseAgent,
    Content,
    CustomAgent,
    Event,
    EventActions,
    FunctionCall,
    FunctionNode,
    FunctionResponse,
    Graph,
    InvocationContext,
    JoinNode,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    NodeContext,
    Part,
    RequestInput,
    RetryConfig,
    SequentialAgent,
    node,
)
from actors.errors import AgentFailedError, DefinitionError, InvalidMessageError, NodeTimeoutError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.support.agents.workflow_agents import answer
from tests.support.fixtures.session_fixture import settled
from tests.support.graphs import double, ends, named_node, texts
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored, stored_state


def ask() -> None:
    """Ask a human."""


def test_a_graph_waits_for_an_answer_and_goes_on_behind_it(deploy: Deploy) -> None:
    model = PatternModel([("tool:", "h has heard"), (".*", {"call": "ask"})])
    asking = LlmAgent(name="h", model=model, tools=[LongRunningFunctionTool(ask)])
    both = JoinNode("both")
    first = named_node("first")
    with deploy(Graph(name="wf", edges=[(START, first, (asking, named_node("beside")), both, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert ends(events) == {"wf@1/first@1": "first(go)", "wf@1/beside@1": "beside(first(go))"}
        [waiting] = [event for event in events if event.long_running_tool_ids]
        assert waiting.author == "h"
        events = run_turn(rt, answer(rt, "h"))
        # What had ended does not run again.
        assert texts(events) == ["h has heard"]
        assert ends(events)["wf@1/both@1"] == {"h": "h has heard", "beside": "beside(first(go))"}
        assert len({event.invocation_id for event in stored(rt)}) == 1


def answers(**values: Any) -> Content:
    parts = [
        Part(function_response=FunctionResponse(id=id, name="adk_request_input", response={"result": value}))
        for id, value in values.items()
    ]
    return Content(role="user", parts=parts)


def asked(events: Sequence[Event]) -> list[tuple[str | None, Any]]:
    return [(call.id, call.args) for event in events for call in event.function_calls()]


def said(events: Sequence[Event]) -> tuple[dict[str, Any], list[tuple[str | None, Any]]]:
    return ends(events), asked(events)


def give_nothing() -> None:
    """Give nothing to the next node."""


def ask_in_between() -> RequestInput:
    """Ask the user."""
    return RequestInput(interrupt_id="q", message="Go on?")


class ShownModel:
    """Calls `ask`, and then says the first text that it is shown."""

    model = "shown"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        has_called = any(part.function_response for content in request.contents for part in content.parts)
        part = Part(text=request.contents[0].text) if has_called else Part(function_call=FunctionCall(name="ask"))
        yield LlmResponse(content=Content(role="model", parts=[part]))


@pytest.mark.parametrize("is_nested", [False, True])
def test_an_agent_that_is_given_nothing_is_asked_the_words_of_the_user_behind_an_answer_as_well(
    deploy: Deploy, is_nested: bool
) -> None:
    writer = LlmAgent(name="writer", model=PatternModel([("write", "a draft"), (".*", "of what?")]))

    @node(rerun_on_resume=True)
    def review(ctx: NodeContext) -> Iterator[Any]:
        answer = ctx.resume_inputs.get("q")
        yield Event(actions=EventActions(route=answer)) if answer else RequestInput(interrupt_id="q", message="good?")

    edges = [(START, give_nothing, writer, review), (review, {"no": writer, "yes": named_node("end")})]
    graph = Graph(name="wf", edges=edges)
    with deploy(Graph(name="around", edges=[(START, give_nothing, graph)]) if is_nested else graph) as rt:
        assert texts(run_turn(rt, "write it")) == ["a draft"]
        assert texts(run_turn(rt, answers(q="no"))) == ["a draft"]


def test_a_graph_that_begins_behind_an_answer_is_given_the_words_with_which_the_turn_began(deploy: Deploy) -> None:
    model = PatternModel([("tool:", "heard"), (".*", {"call": "ask"})])
    asking = LlmAgent(name="h", model=model, tools=[LongRunningFunctionTool(ask)])
    graph = Graph(name="wf", edges=[(START, named_node("first"), ask_in_between, named_node("last"))])
    with deploy(SequentialAgent(name="s", sub_agents=[asking, graph])) as rt:
        run_turn(rt, "another turn, before")
        run_turn(rt, answer(rt, "h"))
        run_turn(rt, answers(q="yes"))
        run_turn(rt, "write it")
        assert ends(run_turn(rt, answer(rt, "h"))) == {"wf@1/first@1": "first(write it)"}
        assert ends(run_turn(rt, answers(q="yes"))) == {"wf@1/last@1": "last(yes)"}


def test_an_agent_that_is_given_nothing_goes_on_with_the_words_of_the_user_behind_its_own_answer(local: Deploy) -> None:
    asking = LlmAgent(name="h", model=ShownModel(), tools=[LongRunningFunctionTool(ask)])
    with local(Graph(name="wf", edges=[(START, give_nothing, asking)])) as rt:
        run_turn(rt, "write it")
        assert texts(run_turn(rt, answer(rt, "h"))) == ["write it"]


def test_the_route_that_a_node_says_beside_its_question_is_taken_with_the_answer(local: Deploy) -> None:
    def ask_for_it(ctx: NodeContext) -> RequestInput:
        ctx.route = "large"
        return RequestInput(interrupt_id="q", message="How many?")

    routes = {"large": named_node("many"), "small": named_node("few")}
    with local(Graph(name="wf", edges=[(START, ask_for_it), (ask_for_it, routes)])) as rt:
        run_turn(rt, "go")
        assert ends(run_turn(rt, answers(q="12"))) == {"wf@1/many@1": "many(12)"}


def test_an_agent_that_is_given_nothing_is_asked_the_message_of_the_turn_also_behind_an_answer(local: Deploy) -> None:
    def question() -> RequestInput:
        return RequestInput(interrupt_id="q")

    def silent() -> None:
        """Gives nothing."""

    model = ScriptedModel(["fine"])
    below = Graph(name="below", edges=[(START, silent, LlmAgent(name="m", model=model))])
    with local(Graph(name="wf", edges=[(START, question, below)])) as rt:
        run_turn(rt, "an older one", session_id="s1")
        run_turn(rt, "Write!", session_id="s1")
        run_turn(rt, answers(q="yes"), session_id="s1")
    assert [content.text for content in model.requests[0].contents] == ["Write!"]


def test_the_answer_to_a_question_is_the_output_of_the_node(deploy: Deploy) -> None:
    def ask_for_it() -> RequestInput:
        return RequestInput(interrupt_id="q", message="How many?", response_schema=int)

    with deploy(Graph(name="wf", edges=[(START, ask_for_it, double)])) as rt:
        events = run_turn(rt, "go")
        assert asked(events) == [("q", {"message": "How many?", "response_schema": {"type": "integer"}})]
        before = stored(rt)
        # What is no answer is refused before it is stored, and so is one with words that nobody would read.
        with pytest.raises(InvalidMessageError, match=r"'q' does not fit .*: the answer is not of type integer"):
            run_turn(rt, answers(q="many"))
        with pytest.raises(InvalidMessageError, match="'q', the question of a node, and has a text"):
            run_turn(rt, Content(role="user", parts=[*answers(q="21").parts, Part(text="please")]))
        assert stored(rt) == before
        events = run_turn(rt, answers(q="21"))
        assert ends(events) == {"wf@1/double@1": 42}
        assert len({event.invocation_id for event in stored(rt)}) == 1


def test_a_node_that_is_called_again_gets_the_answers_so_far(deploy: Deploy) -> None:
    @node(rerun_on_resume=True)
    async def both(ctx: NodeContext) -> AsyncIterator[object]:
        ctx.state["runs"] = ctx.state.get("runs", 0) + 1
        missing = [each for each in ("a", "b") if each not in ctx.resume_inputs]
        for each in missing:
            yield RequestInput(interrupt_id=each)
        if not missing:
            yield ctx.resume_inputs["a"] + ctx.resume_inputs["b"]

    with deploy(Graph(name="wf", edges=[(START, (both, named_node("beside")), JoinNode("join"))])) as rt:
        assert asked(run_turn(rt, "go")) == [("a", {}), ("b", {})]
        assert asked(run_turn(rt, answers(a=1))) == [("b", {})]
        assert ends(run_turn(rt, answers(b=2)))["wf@1/join@1"] == {"both": 3, "beside": "beside(go)"}
        assert stored_state(rt) == {"runs": 3}


@pytest.mark.parametrize("rerun", [False, True])
def test_a_node_may_ask_by_a_call_of_its_own(rerun: bool, deploy: Deploy) -> None:
    @node(rerun_on_resume=rerun)
    def approves(ctx: NodeContext) -> Iterator[object]:
        if ctx.resume_inputs:
            yield f"approved: {ctx.resume_inputs['sign']['by']}"
            return
        call = FunctionCall(id="sign", name="sign", args={"what": "contract"})
        yield Event(content=Content(role="model", parts=[Part(function_call=call)]), long_running_tool_ids=("sign",))

    with deploy(Graph(name="wf", edges=[(START, approves, named_node("last"))])) as rt:
        assert asked(run_turn(rt, "go")) == [("sign", {"what": "contract"})]
        assert [call.name for call in rt.pending(user_id="ada", session_id="s1")] == ["sign"]
        signed = Part(function_response=FunctionResponse(id="sign", name="sign", response={"by": "bob"}))
        given = "approved: bob" if rerun else {"by": "bob"}
        assert ends(run_turn(rt, Content(role="user", parts=[signed])))["wf@1/last@1"] == f"last({given})"


def test_what_a_node_has_said_beside_its_question_is_not_said_again(deploy: Deploy) -> None:
    def ask_and_say() -> Iterator[object]:
        yield Content.of_text("one moment", role="model")
        yield RequestInput()
        yield Content.of_text("waiting", role="model")

    with deploy(Graph(name="wf", edges=[(START, ask_and_say, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert texts(events) == ["one moment", "waiting"]
        [(call_id, _)] = asked(events)
        assert call_id is not None
        events = run_turn(rt, answers(**{call_id: {"yes": True}}))
        assert (texts(events), ends(events)) == ([], {"wf@1/last@1": "last({'yes': True})"})


def test_a_second_answer_to_a_question_does_nothing(deploy: Deploy) -> None:
    def ask_for(id: str) -> FunctionNode:
        return FunctionNode(lambda: RequestInput(interrupt_id=id), name=id)

    graph = Graph(name="wf", edges=[(START, (ask_for("a"), ask_for("b")), JoinNode("join"))])
    with deploy(LoopAgent(name="twice", max_iterations=2, sub_agents=[graph])) as rt:
        assert asked(run_turn(rt, "go")) == [("a", {}), ("b", {})]
        assert said(run_turn(rt, answers(a=1))) == ({}, [])
        # The other question is still open, and its answer is taken.
        assert said(run_turn(rt, answers(a=2))) == ({}, [])
        assert {call.call_id for call in rt.pending(user_id="ada", session_id="s1")} == {"b"}
        events = run_turn(rt, answers(b=3))
        assert said(events) == ({"wf@1/join@1": {"a": 1, "b": 3}}, [("a", {}), ("b", {})])
        assert ends(run_turn(rt, answers(a=4, b=5))) == {"wf@1/join@1": {"a": 4, "b": 5}}
        # The turn is over, and stays so.
        assert said(run_turn(rt, answers(b=6))) == ({}, [])
        assert rt.pending(user_id="ada", session_id="s1") == []


def test_a_second_answer_to_an_agent_in_a_graph_does_nothing(deploy: Deploy) -> None:
    model = PatternModel([("tool:", "h has heard"), (".*", {"call": "ask"})])
    asking = LlmAgent(name="h", model=model, tools=[LongRunningFunctionTool(ask)])
    with deploy(Graph(name="wf", edges=[(START, asking, named_node("last"))])) as rt:
        run_turn(rt, "go")
        reply = answer(rt, "h")
        assert ends(run_turn(rt, reply)) == {"wf@1/last@1": "last(h has heard)"}
        assert said(run_turn(rt, reply)) == ({}, [])


def shaky_node(folder: Path) -> FunctionNode:
    """A node that fails as long as there is no file `well`, when another node has made a file `reached`."""

    def shaky() -> str:
        if (folder / "well").exists():
            return "well"
        until((folder / "reached").exists)
        (folder / "reached").unlink()
        # What the other node has said is stored meanwhile.
        time.sleep(0.2)
        raise ValueError("not now")

    return FunctionNode(shaky)


def question_node(folder: Path) -> FunctionNode:
    """A node that asks."""

    def question() -> RequestInput:
        (folder / "reached").touch()
        return RequestInput(interrupt_id="q")

    return FunctionNode(question)


def failing(rt: Runtime, message: Any) -> list[Event]:
    """What is stored of a turn that fails."""
    before = len(stored(rt))
    with pytest.raises(AgentFailedError, match="not now"):
        run_turn(rt, message)
    return [event for event in stored(rt)[before:] if event.author != "user"]


def test_an_answer_to_a_turn_that_has_failed_runs_what_has_failed_again(deploy: Deploy, tmp_path: Path) -> None:
    question, shaky = question_node(tmp_path), shaky_node(tmp_path)
    after, last = named_node("after"), named_node("last")
    graph = Graph(name="wf", edges=[(START, named_node("first"), (question, shaky)), (question, after), (shaky, last)])
    with deploy(graph) as rt:
        assert asked(failing(rt, "go")) == [("q", {})]
        (tmp_path / "well").touch()
        events = run_turn(rt, answers(q=1))
        assert ends(events) == {"wf@1/after@1": "after(1)", "wf@1/shaky@1": "well", "wf@1/last@1": "last(well)"}
        assert [turn.state for turn in rt.turns.list()] == ["finished"]


def test_what_fails_again_behind_an_answer_says_so_once_more(deploy: Deploy, tmp_path: Path) -> None:
    def after(node_input: int) -> str:
        (tmp_path / "reached").touch()
        return f"after({node_input})"

    question, shaky = question_node(tmp_path), shaky_node(tmp_path)
    with deploy(Graph(name="wf", edges=[(START, (question, shaky)), (question, after)])) as rt:
        failing(rt, "go")
        events = failing(rt, answers(q=1))
        assert ends(events) == {"wf@1/after@1": "after(1)"}
        assert [event.error_code for event in events if event.error_code] == ["ValueError"]
        (tmp_path / "reached").touch()
        # The question has its answer: another one changes nothing, and a turn that has failed stays so.
        assert failing(rt, answers(q=2)) == []
        assert [turn.state for turn in rt.turns.list()] == ["failed"]


def test_the_answer_to_an_agent_in_a_turn_that_has_failed_goes_on_around_the_graph(deploy: Deploy, tmp_path: Path) -> None:
    def asking() -> None:
        """Ask a human."""
        (tmp_path / "reached").touch()

    model = PatternModel([("tool:", "h has heard"), (".*", {"call": "asking"})])
    agent = LlmAgent(name="h", model=model, tools=[LongRunningFunctionTool(asking)])
    graph = Graph(name="wf", edges=[(START, (agent, shaky_node(tmp_path)))])
    end = LlmAgent(name="end", model=PatternModel([(".*", "that is all")]))
    with deploy(SequentialAgent(name="all", sub_agents=[graph, end])) as rt:
        failing(rt, "go")
        (tmp_path / "well").touch()
        events = run_turn(rt, answer(rt, "h"))
        assert texts(events) == ["h has heard", "that is all"]
        assert ends(events)["wf@1/shaky@1"] == "well"


SOON = RetryConfig(max_attempts=3, initial_delay=0.01)


def count(ctx: NodeContext) -> int:
    ctx.state["counted"] = ctx.state.get("counted", 0) + 1
    number: int = ctx.state["counted"]
    return number


def fail_twice(ctx: NodeContext, node_input: int) -> str:
    ctx.state["failed"] = ctx.state.get("failed", 0) + 1
    if ctx.state["failed"] < 3:
        raise ValueError("not yet")
    return f"{node_input} at {ctx.attempt_count}"


def test_an_agent_is_asked_the_same_again_when_it_fails(deploy: Deploy) -> None:
    model = ScriptedModel([ValueError("not now"), {"call": "look"}, ValueError("not now"), "at last"])

    def look() -> str:
        """Look it up."""
        return "seen"

    agent = node(LlmAgent(name="m", model=model, tools=[look]), retry_config=SOON)
    with deploy(Graph(name="wf", edges=[(START, agent, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert [event.error_code for event in events if event.error_code] == ["ValueError", "ValueError"]
        assert ends(events) == {"wf@1/last@1": "last(at last)"}
    # It sees nothing of what it has done before.
    assert [len(request.contents) for request in model.requests] == [1, 1, 3, 1]


def test_an_agent_that_fails_each_time_ends_the_graph(deploy: Deploy) -> None:
    model = ScriptedModel([ValueError("no"), KeyError("other"), "never"])
    retry = RetryConfig(max_attempts=5, initial_delay=0.01, exceptions=[ValueError])
    with deploy(Graph(name="wf", edges=[(START, node(LlmAgent(name="m", model=model), retry_config=retry))])) as rt:
        with pytest.raises(AgentFailedError, match="other"):
            run_turn(rt, "go")
        assert [event.error_code for event in stored(rt) if event.error_code] == ["ValueError", "KeyError"]


def test_a_graph_that_is_tried_again_keeps_what_has_ended_in_it(deploy: Deploy) -> None:
    below = Graph(name="below", edges=[(START, count, fail_twice)])
    with deploy(Graph(name="wf", edges=[(START, node(below, retry_config=SOON), named_node("last"))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == "last(1 at 1)"
        assert [event.error_code for event in stored(rt) if event.error_code] == ["ValueError", "ValueError"]


class Sleeper(CustomAgent):
    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text("just a moment", role="model"))
        await asyncio.sleep(30)


def test_an_agent_that_takes_too_long_is_stopped(deploy: Deploy) -> None:
    # The agent's process has to start within that time as well.
    timeout = 0.3 if deploy.engine == "local" else 3.0
    with deploy(Graph(name="wf", edges=[(START, node(Sleeper(name="sleeper"), timeout=timeout))])) as rt:
        with pytest.raises(Exception, match=rf"Node 'sleeper' timed out after {timeout} seconds"):
            run_turn(rt, "go")
        log = stored(rt)
        assert texts(log)[-1] == "just a moment"
        assert [(event.error_code, event.author) for event in log if event.error_code] == [("NodeTimeoutError", "wf")]


def test_a_graph_as_the_root_is_tried_again(deploy: Deploy) -> None:
    graph = Graph(name="wf", edges=[(START, count, fail_twice, named_node("last"))], retry_config=SOON)
    with deploy(graph) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == "last(1 at 1)"
        log = stored(rt)
        failed = [(event.error_code, event.node_info.path) for event in log if event.error_code and event.node_info]
        assert failed == [("ValueError", "wf@1/fail_twice@1")] * 2
        # Each attempt that failed has left its number.
        infos = [event.node_info for event in log if event.node_info is not None]
        assert [info.attempt for info in infos if info.path == "wf@1"] == [1, 2]


def test_a_graph_as_the_root_fails_when_no_attempt_is_left(deploy: Deploy) -> None:
    retry = RetryConfig(max_attempts=2, initial_delay=0.01, exceptions=[LookupError])
    model = ScriptedModel([KeyError("one"), KeyError("two"), "fine"])
    with deploy(Graph(name="wf", edges=[(START, count, LlmAgent(name="m", model=model))], retry_config=retry)) as rt:
        with pytest.raises(AgentFailedError, match="two"):
            run_turn(rt, "go")
        [turn] = rt.turns.list(user_id="ada")
        # A turn that is retried counts anew, and what has ended stays so.
        run = rt.retry(user_id="ada", session_id="s1", invocation_id=turn.invocation_id)
        assert texts(list(run))[-1] == "fine"
        assert stored_state(rt)["counted"] == 1


TWICE = RetryConfig(max_attempts=2, initial_delay=0.01)


def graph(*nodes: Any, name: str = "wf", **options: Any) -> Graph:
    return Graph(name=name, edges=[(START, *nodes)], **options)


TRIED_TWICE: dict[str, Callable[[BaseAgent], Graph]] = {
    "agent": lambda agent: graph(node(agent, retry_config=TWICE)),
    "graph": lambda agent: graph(node(graph(agent, name="below"), retry_config=TWICE)),
    "root": lambda agent: graph(agent, retry_config=TWICE),
    "workflow": lambda agent: graph(node(SequentialAgent(name="steps", sub_agents=[agent]), retry_config=TWICE)),
}


@pytest.mark.parametrize("what", TRIED_TWICE)
def test_a_retry_of_the_turn_counts_attempts_anew(local: Deploy, what: str) -> None:
    model = ScriptedModel([*(KeyError("no") for _ in range(5)), "fine"])
    with local(TRIED_TWICE[what](LlmAgent(name="m", model=model))) as rt:
        with pytest.raises(AgentFailedError):
            run_turn(rt, "go")
        [turn] = rt.turns.list(user_id="ada")
        for made in (2, 4):
            assert len(model.requests) == made
            run = rt.retry(user_id="ada", session_id="s1", invocation_id=turn.invocation_id)
            if made == 2:
                with pytest.raises(AgentFailedError):
                    run.result()
            else:
                assert texts(list(run))[-1] == "fine"


class Waits:
    """A model that answers the second time it is asked. Before it waits until it is stopped, and takes a while to be."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self.happened.append("begun")
        if len(self.happened) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await settled()
                self.happened.append("stopped")
        yield LlmResponse(content=Content.of_text("fine", role="model"))


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("what", ["agent", "graph", "workflow"])
def test_what_takes_too_long_has_stopped_before_anything_follows(local: Deploy, what: str, attempts: int) -> None:
    model = Waits()
    agent = LlmAgent(name="m", model=model)
    below: dict[str, BaseAgent] = {
        "agent": agent,
        "graph": graph(agent, name="below"),
        "workflow": SequentialAgent(name="steps", sub_agents=[agent]),
    }
    retry = RetryConfig(max_attempts=attempts, initial_delay=0.01)
    with local(graph(node(below[what], timeout=0.2, retry_config=retry))) as rt:
        if attempts == 1:
            with pytest.raises(NodeTimeoutError):
                run_turn(rt, "go")
        else:
            assert texts(run_turn(rt, "go"))[-1] == "fine"
        assert model.happened == ["begun", "stopped", "begun"][: attempts + 1]


def test_a_graph_as_the_root_that_takes_too_long_is_stopped_and_tried_again(deploy: Deploy) -> None:
    async def slow_once(ctx: NodeContext, node_input: int) -> str:
        ctx.state["begun"] = begun = ctx.state.get("begun", 0) + 1
        yield_now = Event(actions=EventActions(state_delta={"begun": begun}))
        await ctx.run_node(FunctionNode(lambda: yield_now, name=f"note_{begun}"))
        await asyncio.sleep(30 if begun == 1 else 0)
        return f"{node_input} after {begun}"

    timeout = 0.3 if deploy.engine == "local" else 3.0
    graph = Graph(name="wf", edges=[(START, count, node(slow_once, rerun_on_resume=True))], retry_config=SOON, timeout=timeout)
    with deploy(graph) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/slow_once@1"] == "1 after 2"
        [late] = [event for event in stored(rt) if event.error_code]
        assert (late.error_code, late.error_message) == ("NodeTimeoutError", f"Node 'wf' timed out after {timeout} seconds.")


def test_a_graph_that_is_no_node_is_tried_again_wherever_it_stands(deploy: Deploy) -> None:
    graph = Graph(name="wf", edges=[(START, count, fail_twice)], retry_config=SOON)
    with deploy(SequentialAgent(name="steps", sub_agents=[graph])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/fail_twice@1"] == "1 at 1"


def test_attempts_that_are_none_are_refused() -> None:
    for options in ({"timeout": 0}, {"timeout": -1.0}):
        with pytest.raises(DefinitionError, match="above 0"):
            Graph(name="wf", edges=[(START, count)], **options)


def test_an_attempt_with_another_behind_it_is_logged_as_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(node_input: str) -> str:
        raise ValueError("not today")

    tried = node(fail, retry_config=RetryConfig(max_attempts=3, initial_delay=0.01, jitter=0.0))
    with Deploy("local", tmp_path)(Graph(name="wf", edges=[(START, tried)])) as rt, pytest.raises(AgentFailedError):
        run_turn(rt, "go")
    records = [record for record in caplog.records if "node 'fail'" in record.getMessage()]
    assert [(record.levelno, record.getMessage().partition(" failed in turn")[0]) for record in records] == [
        (logging.WARNING, "attempt 1 of 3 of node 'fail' of graph 'wf', with the next in 0.01 s,"),
        (logging.WARNING, "attempt 2 of 3 of node 'fail' of graph 'wf', with the next in 0.02 s,"),
        (logging.ERROR, "node 'fail' of graph 'wf'"),
    ]
    assert all("not today" in (record.exc_text or "") for record in records)


def test_an_attempt_of_an_agent_is_logged_as_one_of_a_function_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([ValueError("not today"), KeyError("gone"), "never"])
    retry = RetryConfig(max_attempts=3, initial_delay=0.01, jitter=0.0, exceptions=["ValueError"])
    tried = node(LlmAgent(name="m", model=model), retry_config=retry)
    with Deploy("local", tmp_path)(Graph(name="wf", edges=[(START, tried)])) as rt, pytest.raises(AgentFailedError):
        run_turn(rt, "go")
    records = [record for record in caplog.records if "agent 'm'" in record.getMessage()]
    assert [(record.levelno, record.getMessage().partition(" failed in turn")[0]) for record in records] == [
        (logging.WARNING, "attempt 1 of 3 of agent 'm', with the next in 0.01 s,"),
        (logging.ERROR, "agent 'm'"),
    ]


def test_a_graph_that_takes_too_long_is_logged_as_a_warning_until_its_last_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait() -> None:
        await asyncio.sleep(60)

    retry = RetryConfig(max_attempts=2, initial_delay=0.01, jitter=0.0)
    graph = Graph(name="wf", edges=[(START, node(wait))], timeout=0.02, retry_config=retry)
    with Deploy("local", tmp_path)(graph) as rt, pytest.raises(NodeTimeoutError):
        run_turn(rt, "go")
    records = [record for record in caplog.records if "graph 'wf'" in record.getMessage()]
    assert [(record.levelno, record.getMessage().partition(" failed in turn")[0]) for record in records] == [
        (logging.WARNING, "attempt 1 of 2 of graph 'wf', with the next in 0.01 s,"),
        (logging.ERROR, "graph 'wf'"),
    ]
