"""Workflow agents, flows and custom agents with children as nodes: what they are asked, see and hand on (semantics.md 8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from actors import (
    START,
    Content,
    CustomAgent,
    Event,
    Flow,
    FlowAgent,
    Graph,
    InvocationContext,
    JoinNode,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    NodeContext,
    ParallelAgent,
    SequentialAgent,
    Task,
    exit_loop,
    node,
)
from actors.testing import PatternModel, ScriptedModel
from tests.support.agents.flow_agents import ME, ask_user, reply_to, succeed, worker
from tests.support.agents.workflow_agents import answer
from tests.support.graphs import ends, named_node
from tests.support.runtimes import Deploy, run_turn, stored


def ask() -> None:
    """Ask a human."""


def asked(model: ScriptedModel) -> list[list[str]]:
    """The texts that a model was shown, by request."""
    return [[part.text or "" for content in request.contents for part in content.parts] for request in model.requests]


def talker(name: str, *script: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=ScriptedModel(list(script)), **fields)


def test_a_sequence_is_asked_what_the_node_before_has_given_and_hands_on_its_last_answer(deploy: Deploy) -> None:
    a, b = ScriptedModel(["A has read"]), ScriptedModel(["B agrees"])
    steps = SequentialAgent(name="steps", sub_agents=[LlmAgent(name="a", model=a), LlmAgent(name="b", model=b)])
    with deploy(Graph(name="wf", edges=[(START, named_node("first"), steps, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert ends(events) == {"wf@1/first@1": "first(go)", "wf@1/last@1": "last(B agrees)"}
        assert asked(a) == [["first(go)"]]
        assert asked(b) == [["first(go)", "For context:", "[a] said: A has read"]]
        said = [(event.author, event.node_info.path) for event in events if event.node_info and event.content]
        assert said == [("a", "wf@1/steps@1"), ("b", "wf@1/steps@1")]


def test_a_parallel_hands_on_what_each_of_its_agents_has_said(deploy: Deploy) -> None:
    inner = ParallelAgent(name="both", sub_agents=[talker("a", "A"), talker("b", "B"), talker("c", "")])
    with deploy(Graph(name="wf", edges=[(START, inner, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert ends(events) == {"wf@1/last@1": "last({'a': 'A', 'b': 'B', 'c': ''})"}
        branches = {event.author: event.branch for event in events if event.content is not None}
        assert branches == {"a": "both.a", "b": "both.b", "c": "both.c"}


def test_a_loop_sees_its_own_run_only_and_hands_on_what_was_said_last(deploy: Deploy) -> None:
    writer, critic = (
        ScriptedModel(["draft 1", "draft 2", "other 1"]),
        ScriptedModel(["shorter", {"call": "exit_loop"}, {"call": "exit_loop"}]),
    )
    agents = [LlmAgent(name="writer", model=writer), LlmAgent(name="critic", model=critic, tools=[exit_loop])]
    loop = LoopAgent(name="loop", sub_agents=agents, max_iterations=3)

    def again(ctx: NodeContext, node_input: str) -> str:
        ctx.route = "again" if ctx.run_id == "1" else "done"
        return node_input

    edges = [(START, named_node("first"), loop, again, {"again": loop, "done": named_node("last")})]
    with deploy(Graph(name="wf", edges=edges)) as rt:
        events = run_turn(rt, "go")
        assert ends(events)["wf@1/last@1"] == "last(other 1)"
        quoted = "For context:"
        assert asked(writer) == [
            ["first(go)"],
            ["first(go)", "draft 1", quoted, "[critic] said: shorter"],
            # The second run of the loop is asked what the first has given, and sees nothing of it.
            ["draft 2"],
        ]


def test_a_question_in_a_sequence_pauses_the_graph_and_is_gone_on_from(deploy: Deploy) -> None:
    waits = PatternModel([("tool:", "h has heard"), (".*", {"call": "ask"})])
    last = ScriptedModel(["C is done"])
    agents = [
        talker("a", "A has read"),
        LlmAgent(name="h", model=waits, tools=[LongRunningFunctionTool(ask)]),
        LlmAgent(name="c", model=last),
    ]
    edges = [(START, (SequentialAgent(name="steps", sub_agents=agents), named_node("beside")), JoinNode("both"))]
    with deploy(Graph(name="wf", edges=edges)) as rt:
        assert ends(run_turn(rt, "go")) == {"wf@1/beside@1": "beside(go)"}
        events = run_turn(rt, answer(rt, "h"))
        assert ends(events) == {"wf@1/both@1": {"steps": "C is done", "beside": "beside(go)"}}
        assert asked(last)[0][0] == "go"
        assert asked(last)[0][-1] == "[h] said: h has heard"
        # Nobody has worked twice.
        assert [event.text for event in stored(rt) if event.author == "a" and event.text] == ["A has read"]


def test_questions_side_by_side_keep_what_others_have_said(deploy: Deploy) -> None:
    waits = PatternModel([("tool:", "h has heard"), (".*", {"call": "ask"})])
    inner = ParallelAgent(
        name="both", sub_agents=[talker("a", "A"), LlmAgent(name="h", model=waits, tools=[LongRunningFunctionTool(ask)])]
    )
    with deploy(Graph(name="wf", edges=[(START, inner, named_node("last"))])) as rt:
        run_turn(rt, "go")
        assert ends(run_turn(rt, answer(rt, "h"))) == {"wf@1/last@1": "last({'a': 'A', 'h': 'h has heard'})"}


def test_a_workflow_of_workflows_and_graphs_is_one_node(deploy: Deploy) -> None:
    below = Graph(name="below", edges=[(START, named_node("x"), talker("y", "Y1", "Y2"))])
    closing = ScriptedModel(["Z1", "Z2"])
    loop = LoopAgent(name="loop", sub_agents=[below, LlmAgent(name="z", model=closing)], max_iterations=2)
    outer = SequentialAgent(name="outer", sub_agents=[talker("a", "A"), loop])
    with deploy(Graph(name="wf", edges=[(START, named_node("first"), outer, named_node("last"))])) as rt:
        events = run_turn(rt, "go")
        assert ends(events) == {
            "wf@1/first@1": "first(go)",
            "wf@1/outer@1/loop@1/below@1/x@1": "x(first(go))",
            "wf@1/outer@1/loop@1/below@2/x@1": "x(first(go))",
            "wf@1/last@1": "last(Z2)",
        }
        said = [f"[{each}] said: {text}" for each, text in (("a", "A"), ("y", "Y1"))]
        assert [text for text in asked(closing)[0] if text != "For context:"] == ["first(go)", *said]


class Editor(CustomAgent):
    """Says something, and has its child work."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text(f"asked {context.user_content.text}", role="model"))
        await context.run_agent("a")


def test_a_custom_agent_with_children_hands_on_what_was_said_last(deploy: Deploy) -> None:
    a = ScriptedModel(["A has read"])
    editor = Editor(name="editor", sub_agents=[LlmAgent(name="a", model=a)])
    with deploy(Graph(name="wf", edges=[(START, named_node("first"), editor, named_node("last"))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == "last(A has read)"
        assert asked(a) == [["first(go)", "For context:", "[editor] said: asked first(go)"]]


def test_a_flow_works_on_what_it_is_asked_and_hands_on_its_results(deploy: Deploy) -> None:
    asking = worker("asking", {"call": "ask_user", "args": {"question": "Which?"}}, succeed("t", "blue"), tools=[ask_user])
    busy = worker("busy", succeed("u", "done"))
    tasks = [Task("1", name="t", agents=[asking]), Task("2", name="u", depends_on=["t"], agents=[busy])]
    edges = [(START, named_node("first"), FlowAgent(Flow(tasks, name="colours")), named_node("last"))]
    with deploy(Graph(name="wf", edges=edges)) as rt:
        turn = rt.run(**ME, message="go")
        reply = reply_to(turn, result="blue")
        events = list(rt.run(**ME, message=reply))
        assert ends(events) == {"wf@1/last@1": "last(done)"}
        for model in (asking.model, busy.model):
            assert isinstance(model, ScriptedModel)
            assert asked(model)[0][0] == "first(go)"


def test_items_run_a_sequence_each(deploy: Deploy) -> None:
    def items() -> list[str]:
        return ["x", "y"]

    steps = SequentialAgent(
        name="steps", sub_agents=[LlmAgent(name=name, model=PatternModel([("x", "X"), ("y", "Y")])) for name in ("a", "b")]
    )
    with deploy(Graph(name="wf", edges=[(START, items, node(steps, parallel_worker=True), named_node("last"))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == "last(['X', 'Y'])"


def test_an_agent_hands_over_to_a_sequence(deploy: Deploy) -> None:
    steps = SequentialAgent(name="steps", sub_agents=[talker("a", "A"), talker("b", "B")])
    desk = talker("desk", {"call": "transfer_to_agent", "args": {"agent_name": "steps"}}, sub_agents=[steps])
    with deploy(Graph(name="wf", edges=[(START, desk, named_node("last"))])) as rt:
        assert ends(run_turn(rt, "go"))["wf@1/last@1"] == "last(B)"
