"""Agents and graphs in graphs that are tried again, or take too long (semantics.md section 8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
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
    FunctionNode,
    Graph,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    NodeContext,
    RetryConfig,
    SequentialAgent,
    node,
)
from actors.errors import AgentFailedError, DefinitionError, NodeTimeoutError
from actors.testing import ScriptedModel
from tests.support.fixtures.session_fixture import settled
from tests.support.graphs import ends, named_node, texts
from tests.support.runtimes import Deploy, run_turn, stored, stored_state

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
