"""Children of workflow agents that ask the user, one by one and side by side (semantics.md section 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from actors import (
    START,
    BaseAgent,
    CustomAgent,
    Event,
    Flow,
    Graph,
    InvocationContext,
    JoinNode,
    LlmAgent,
    NodeContext,
    RequestInput,
    RunConfig,
    Task,
    ToolContext,
    node,
    tool,
)
from actors.messages.llm import LlmRequest, LlmResponse
from actors.testing import Reply, ScriptedModel, responses
from runtime import Runtime
from tests.acceptance.graphs.test_pauses_and_attempts import answers, asked
from tests.support.agents.workflow_agents import loop, par, seq
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.graphs import ends
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy, run_turn, stored, stored_state

NAMES = ("a", "b", "c")
ME: Any = {"user_id": "ada", "session_id": "s1"}


@tool(long_running=True)
def approve(who: str) -> None:
    """Ask for a result."""


@tool(require_confirmation=True)
def confirm(who: str, tool_context: ToolContext) -> dict[str, Any]:
    """Ask for consent."""
    assert tool_context.tool_confirmation is not None
    return dict(tool_context.tool_confirmation.payload)


@tool
def consult(who: str, tool_context: ToolContext) -> Any:
    """Ask in the middle of the call."""
    if tool_context.input is None:
        return tool_context.request_input({"message": f"{who}?"})
    return tool_context.input.response


class Asks:
    """Calls the tool once, with the same id whoever asks, and says the response."""

    def __init__(self, name: str, asks: str) -> None:
        self._call: Reply = {"call": asks, "args": {"question" if asks == "ask_user" else "who": name}, "id": "call_1"}
        self._asks = asks

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Respond by the request alone."""
        given = [each for each in request.contents[-1].function_responses() if each.name == self._asks]
        finish = [each.name for each in request.tools if each.name.startswith("succeed_")]
        reply: Reply = self._call
        if given:
            said = str(given[-1].response.get("for"))
            reply = {"call": finish[0], "args": {"result": said}} if finish else f"heard {said}"
        for response in responses(reply, stream=stream):
            yield response


def asking(asks: str = "approve", **fields: Any) -> list[LlmAgent]:
    tools = [] if asks == "ask_user" else [approve, confirm, consult]
    return [LlmAgent(name=name, model=Asks(name, asks), tools=tools, **fields) for name in NAMES]


class AtOnce(CustomAgent):
    """Runs its children at once, all on its own branch."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        await asyncio.gather(*map(context.run_agent, NAMES))
        return
        yield Event()  # type: ignore[unreachable]


def flow() -> Flow:
    tasks = [Task(f"{name} asks", name=f"task_{name}", interactive=True, agents=[name]) for name in NAMES]
    return Flow(tasks, name="flow", agents=asking("ask_user"))


def boss() -> LlmAgent:
    calls = {"parts": [{"call": name, "args": {"request": "ask"}} for name in NAMES]}
    return LlmAgent(name="boss", model=ScriptedModel([calls, "done"]), sub_agents=asking(mode="single_turn"))


TREES: dict[str, Callable[[], Any]] = {
    "long-running": lambda: par("p", *asking()),
    "confirmation": lambda: par("p", *asking("confirm")),
    "question": lambda: par("p", *asking("consult")),
    "custom": lambda: AtOnce(name="custom", sub_agents=asking()),
    "graph": lambda: Graph(name="wf", edges=[(START, tuple(asking()))]),
    "flow": flow,
    "delegates": boss,
}


def answer(rt: Runtime, *names: str) -> None:
    """Answer the questions of some agents in one message."""
    waiting = {call.agent: call for call in rt.pending(**ME)}
    consent = waiting[names[0]].is_confirmation and waiting[names[0]].question is None
    given = {waiting[name].call_id: {"for": name} for name in names}
    rt.answer({call: {"confirmed": True, "payload": each} if consent else each for call, each in given.items()}, **ME).result()


def heard(rt: Runtime) -> dict[str, list[str]]:
    """What each agent has been answered, by its own words."""
    found: dict[str, list[str]] = {name: [] for name in NAMES}
    for event in stored(rt):
        if event.author in found and event.text.startswith("heard "):
            found[event.author].append(event.text.removeprefix("heard "))
        for call in event.function_calls():
            if call.name.startswith("succeed_"):
                found[event.author].append(call.args["result"])
    return found


EACH_ITS_OWN = {name: [name] for name in NAMES}


@pytest.mark.parametrize("order", ["abc", "bca", "cba"])
@pytest.mark.parametrize("kind", TREES)
def test_each_answer_reaches_the_agent_that_has_asked_in_whatever_order_they_come(local: Deploy, kind: str, order: str) -> None:
    with local(TREES[kind]()) as rt:
        run_turn(rt, "go")
        for name in order:
            assert {call.agent for call in rt.pending(**ME)} == set(order[order.index(name) :])
            answer(rt, name)
        assert heard(rt) == EACH_ITS_OWN
        assert [turn.state for turn in rt.turns.list()] == ["finished"]


@pytest.mark.parametrize("kind", ["long-running", "confirmation", "question", "flow"])
def test_so_do_several_that_come_in_one_message(deploy: Deploy, kind: str) -> None:
    with deploy(TREES[kind]()) as rt:
        run_turn(rt, "go")
        answer(rt, "c", "a")
        answer(rt, "b")
        assert heard(rt) == EACH_ITS_OWN


def played(losses: list[Loss]) -> tuple[Any, LossyEngine]:
    with quick_folder() as folder:
        rt, engine = lossy_runtime(seq("root", loop("l", par("p", *asking()), times=2)), Path(folder), losses)
        with rt:
            run_turn(rt, "go")
            for name in "cabbca":
                answer(rt, name)
            return heard(rt), engine


@pytest.mark.parametrize("who", get_args(Victim))
def test_so_they_do_whoever_is_lost_meanwhile(who: Victim) -> None:
    twice = {name: [name, name] for name in NAMES}
    said, undisturbed = played([])
    assert said == twice
    lost = 0
    for at in range(0, undisturbed.messages, undisturbed.messages // 12):
        said, engine = played([Loss(at, who, before=at % 2 == 0)])
        assert said == twice, (at, engine.lost)
        lost += len(engine.lost)
    assert lost


def test_an_answer_reaches_the_turn_that_has_asked_when_another_one_has_asked_since(deploy: Deploy) -> None:
    def tree() -> BaseAgent:
        a, b, c = asking()
        return LlmAgent(name="root", model=ScriptedModel(["hello"]), sub_agents=[a, b, c])

    with deploy(tree()) as rt:
        for name in NAMES:
            run_turn(rt, "go", run_config=RunConfig(agent=name))
        assert sorted(call.agent for call in rt.pending(**ME)) == list(NAMES)
        for name in "acb":
            answer(rt, name)
        assert heard(rt) == EACH_ITS_OWN
        assert [turn.state for turn in rt.turns.list()] == ["finished"] * 3


def test_an_answer_reaches_an_agent_to_which_the_one_that_was_addressed_has_handed_over(deploy: Deploy) -> None:
    _, b, _ = asking()
    a = LlmAgent(name="a", model=ScriptedModel([{"transfer": "b"}, "I was not asked"]))
    with deploy(LlmAgent(name="root", model=ScriptedModel(["hello"]), sub_agents=[a, b])) as rt:
        run_turn(rt, "go", run_config=RunConfig(agent="a"))
        assert [call.agent for call in rt.pending(**ME)] == ["b"]
        answer(rt, "b")
        assert heard(rt) == {"a": [], "b": ["b"], "c": []}


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
