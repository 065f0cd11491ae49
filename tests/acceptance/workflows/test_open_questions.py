"""Graphs of which several nodes, or items, wait for the user, and some have answers (semantics.md section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors import START, Graph, JoinNode, NodeContext, RequestInput, node
from tests.acceptance.graphs.test_graph_pauses import answers, asked
from tests.support.graphs import ends
from tests.support.runtimes import Deploy, run_turn, stored_state


def count(ctx: NodeContext, name: str) -> None:
    """Count a run in the state."""
    ctx.state[name] = ctx.state.get(name, 0) + 1


@node(rerun_on_resume=True)
async def both(ctx: NodeContext) -> AsyncIterator[object]:
    count(ctx, "runs")
    missing = [each for each in ("a", "b") if each not in ctx.resume_inputs]
    for each in missing:
        yield RequestInput(interrupt_id=each)
    if not missing:
        yield [ctx.resume_inputs["a"], ctx.resume_inputs["b"]]


def other() -> RequestInput:
    return RequestInput(interrupt_id="other")


@node(rerun_on_resume=True)
def third(ctx: NodeContext) -> Any:
    count(ctx, "third")
    return ctx.resume_inputs.get("c") or RequestInput(interrupt_id="c")


def test_a_node_with_some_of_its_answers_is_called_again_whenever_the_graph_goes_on(deploy: Deploy) -> None:
    with deploy(Graph(name="wf", edges=[(START, (both, other, third), JoinNode("all"))])) as rt:
        assert sorted(asked(run_turn(rt, "go"))) == [("a", {}), ("b", {}), ("c", {}), ("other", {})]
        assert asked(run_turn(rt, answers(a=1))) == [("b", {})]
        # The third has no answer yet, and is not called.
        assert asked(run_turn(rt, answers(other=5))) == [("b", {})]
        assert (stored_state(rt)["runs"], stored_state(rt)["third"]) == (3, 1)
        assert asked(run_turn(rt, answers(b=2))) == []
        assert ends(run_turn(rt, answers(c=3)))["wf@1/all@1"] == {"both": [1, 2], "other": 5, "third": 3}
        assert (stored_state(rt)["runs"], stored_state(rt)["third"]) == (4, 2)


def test_so_is_a_function_that_has_run_the_nodes_that_ask(deploy: Deploy) -> None:
    @node(rerun_on_resume=True)
    def one(node_input: str, ctx: NodeContext) -> Any:
        return ctx.resume_inputs.get(node_input) or RequestInput(interrupt_id=node_input)

    @node(rerun_on_resume=True)
    async def chief(ctx: NodeContext) -> list[Any]:
        count(ctx, "chief")
        return list(await asyncio.gather(ctx.run_node(one, "x"), ctx.run_node(one, "y")))

    with deploy(Graph(name="wf", edges=[(START, (chief, other), JoinNode("all"))])) as rt:
        assert sorted(asked(run_turn(rt, "go"))) == [("other", {}), ("x", {}), ("y", {})]
        # Its runs keep waiting: only the function itself is called.
        assert asked(run_turn(rt, answers(x=1))) == asked(run_turn(rt, answers(other=5))) == []
        assert stored_state(rt)["chief"] == 3
        assert ends(run_turn(rt, answers(y=2)))["wf@1/all@1"] == {"chief": [1, 2], "other": 5}


def items() -> list[int]:
    return [1, 2, 3]


def test_an_item_that_waits_keeps_later_ones_from_beginning(deploy: Deploy) -> None:
    @node(rerun_on_resume=True)
    async def work(node_input: int, ctx: NodeContext) -> Any:
        count(ctx, f"runs{node_input}")
        if node_input == 2:
            await asyncio.sleep(0.2)
        return node_input if node_input != 1 or "q" in ctx.resume_inputs else RequestInput(interrupt_id="q")

    worker = node(work, parallel_worker=True, max_parallel_workers=2)
    with deploy(Graph(name="wf", edges=[(START, items, worker)])) as rt:
        run_turn(rt, "go")
        assert {key: runs for key, runs in stored_state(rt).items() if key.startswith("runs")} == {"runs1": 1, "runs2": 1}
        assert ends(run_turn(rt, answers(q="yes")))["wf@1/work@1"] == [1, 2, 3]
        assert stored_state(rt) == {"runs1": 2, "runs2": 1, "runs3": 1}


@pytest.mark.parametrize("order", ["123", "132", "213"])
def test_items_that_ask_go_on_in_any_order(order: str, local: Deploy) -> None:
    @node(rerun_on_resume=True)
    def work(node_input: int, ctx: NodeContext) -> Any:
        return ctx.resume_inputs.get(f"q{node_input}") or RequestInput(interrupt_id=f"q{node_input}")

    worker = node(work, parallel_worker=True, max_parallel_workers=2)
    with local(Graph(name="wf", edges=[(START, items, worker)])) as rt:
        assert sorted(asked(run_turn(rt, "go"))) == [("q1", {}), ("q2", {})]
        open_ones, answered = {"1", "2"}, set[str]()
        found: dict[str, Any] = {}
        while answered != set("123"):
            item = next(each for each in order if each in open_ones)
            open_ones.remove(item)
            answered.add(item)
            events = run_turn(rt, answers(**{f"q{item}": f"yes{item}"}))
            open_ones |= {str(call_id)[1:] for call_id, _ in asked(events)} - answered
            found |= ends(events)
    assert found["wf@1/work@1"] == ["yes1", "yes2", "yes3"]


def test_an_answer_to_a_later_item_waits_until_those_before_it_have_ended(local: Deploy) -> None:
    @node(rerun_on_resume=True)
    def work(node_input: int, ctx: NodeContext) -> Any:
        return ctx.resume_inputs.get(f"q{node_input}") or RequestInput(interrupt_id=f"q{node_input}")

    worker = node(work, parallel_worker=True, max_parallel_workers=2)
    with local(Graph(name="wf", edges=[(START, items, worker)])) as rt:
        run_turn(rt, "go")
        assert asked(run_turn(rt, answers(q1="one"))) == [("q3", {})]
        # The second was asked before the first has ended, and still waits.
        assert ends(run_turn(rt, answers(q3="three"))) == {}
        assert ends(run_turn(rt, answers(q2="two")))["wf@1/work@1"] == ["one", "two", "three"]
