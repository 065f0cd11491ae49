"""Trees with flows and graphs, of which models are shown what only such have: tasks, results of nodes, questions of functions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic

from actors import (
    START,
    AgentTool,
    BaseAgent,
    Content,
    Event,
    Flow,
    FlowAgent,
    FunctionCall,
    FunctionNode,
    Graph,
    JoinNode,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    NodeContext,
    ParallelAgent,
    Part,
    Task,
    ToolContext,
    create_tasks,
    node,
)
from actors.testing import PatternModel

LONG = "word " * 4_000

PLAN = [{"name": "extra", "objective": "More.", "agents": ["b"]}, {"name": "rest", "objective": "Rest.", "depends_on": ["extra"]}]


class WorkingModel:
    """Works on tasks, by the request alone: it digs, plans and asks the user once each where it can, then ends what it can."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Call the next tool, or say that all is done."""
        tools = [tool.name for tool in request.tools]
        made = {call.name for content in request.contents for call in content.function_calls()}
        args: dict[str, object] = {"result": f"found by {request.agent}"}
        if "dig" in tools and "dig" not in made:
            call = FunctionCall(name="dig", args={"where": request.agent})
        elif "create_tasks" in tools and "create_tasks" not in made:
            call = FunctionCall(name="create_tasks", args={"tasks": PLAN})
        elif "ask_user" in tools and "ask_user" not in made:
            call = FunctionCall(name="ask_user", args={"question": "Which?"})
        elif finishes := [name for name in tools if name.startswith("succeed_")]:
            call = FunctionCall(name=finishes[0], args=args)
        elif "end_turn" in tools:
            call = FunctionCall(name="end_turn", args={})
        else:
            yield LlmResponse(content=Content.of_text(f"{request.agent} is done", role="model"))
            return
        yield LlmResponse(content=Content(role="model", parts=[Part(text=f"by {request.agent}"), Part(function_call=call)]))


def dig(where: str, tool_context: ToolContext) -> str:
    """Dig."""
    tool_context.state[where] = tool_context.state.get(where, 0) + 1
    return "gold"


def digger(name: str, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=WorkingModel(), tools=[dig], **fields)


def office(name: str = "h") -> Flow:
    """Two tasks side by side, what needs them, with templates, values, parts, one that only one of two may end, and new tasks."""
    agents = [digger("a"), LlmAgent(name="b", model=WorkingModel(), tools=[dig, create_tasks], instruction="{a?}")]
    first = Task("Find {a?}.", name="t1", agents=["a"], instructions="Once {b?}.")
    second = Task("2", name="t2", agents=["b"])
    third = Task("3 after {b?}", name="t3", agents=["a"], context={"first": first, "other": second, "kept": {"x": [1]}})
    parts = Task("all", name="whole", agents=["a"], subtasks=[Task("a part", name="part", agents=["b"])], depends_on=[third])
    last = Task("4", name="t4", agents=["b", "a"], completion_agents=["a"], depends_on=[parts])
    return Flow([first, second, third, parts, last], agents=agents, name=name)


def flow_root() -> BaseAgent:
    return FlowAgent(office())


def flow_asking() -> BaseAgent:
    """A task asks the user, while another one is worked on."""
    tasks = [Task("Ask {h?}.", name="t1", agents=["h"], interactive=True), Task("2", name="t2", agents=["y"])]
    last = Task("3", name="t3", agents=["h"], depends_on=["t1", "t2"])
    return FlowAgent(Flow([*tasks, last], agents=[digger("h"), digger("y")], name="asking"))


def flow_as_node() -> BaseAgent:
    """A flow is a node: it works on what the node before has said, and its answer goes on."""
    first = LlmAgent(name="first", model=PatternModel([], default=f"first is done. {LONG}"))
    return Graph(name="root", edges=[(START, first, FlowAgent(office()), digger("last", instruction="{a?} {b?}"))])


def flow_asking_as_node() -> BaseAgent:
    return Graph(name="root", edges=[(START, digger("first"), flow_asking(), digger("last"))])


def flow_as_tool() -> BaseAgent:
    call = {"call": "h", "args": {"request": "the key"}}
    model = PatternModel([("tool:", "found"), ("", call)])
    return LlmAgent(name="root", model=model, tools=[AgentTool(FlowAgent(office()))])


def flows_beside_each_other() -> BaseAgent:
    flows = [
        FlowAgent(Flow([Task(f"{name} {{{name}?}}", name="t")], agents=[digger(name)], name=f"f{name}")) for name in ("x", "y")
    ]
    return LoopAgent(name="root", max_iterations=2, sub_agents=[ParallelAgent(name="both", sub_agents=flows)])


class Order(pydantic.BaseModel):
    """What a node is asked."""

    number: int = 7
    what: str = ""


def long_answers() -> BaseAgent:
    """What goes from node to node is too long to be kept twice, as text, data, an item of a list, and fields of a class."""

    def data(node_input: dict[str, str]) -> dict[str, object]:
        return {"what": f"{node_input} {LONG}"}

    def items(node_input: object) -> list[str]:
        return [f"{number} {LONG}" for number in range(2)]

    said = LlmAgent(name="said", model=PatternModel([], default=LONG))
    worker = node(LlmAgent(name="worker", model=PatternModel([], default="worked"), instruction="{a?}"), parallel_worker=True)
    strict = LlmAgent(name="strict", model=PatternModel([], default="kept"), input_schema=Order)
    both = (digger("a"), digger("b"))
    edges = [(START, said, both, JoinNode("all"), data, strict, items, worker, digger("last", include_contents="none"))]
    return Graph(name="graph", edges=edges)


def long_dynamic() -> BaseAgent:
    """A function asks an agent twice: a short question, and a long one that stands nowhere else."""

    async def chief(ctx: NodeContext) -> object:
        await ctx.run_node("below", "short")
        return await ctx.run_node("below", f"made up {LONG}", use_sub_branch=True)

    edges = [(START, FunctionNode(chief, rerun_on_resume=True), digger("last"))]
    return Graph(name="graph", edges=edges, sub_agents=[digger("below", instruction="{below?}")])


def chatting() -> BaseAgent:
    """A node hears the conversation, one beside it only what it is asked."""
    hears = LlmAgent(name="x", model=PatternModel([], default="x has heard"), mode="chat")
    return Graph(name="graph", edges=[(START, (hears, digger("a", instruction="{a?}")))])


def routed() -> BaseAgent:
    """A circle in which functions say more than they give, and write into the state what the next agent is shown."""

    def again(ctx: NodeContext, node_input: object) -> Event:
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.route = "again" if ctx.state["rounds"] % 3 else "done"
        return Event(output={"round": ctx.state["rounds"]})

    looks = digger("a", instruction="Round {rounds?}, {a?}.")
    return Graph(name="graph", edges=[(START, looks, again, {"again": looks, "done": digger("last", instruction="{rounds?}")})])


WORKING: dict[str, Callable[[], BaseAgent]] = {
    tree.__name__: tree
    for tree in (
        flow_root,
        flow_asking,
        flow_as_node,
        flow_asking_as_node,
        flow_as_tool,
        flows_beside_each_other,
        long_answers,
        long_dynamic,
        chatting,
        routed,
    )
}
