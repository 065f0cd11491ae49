"""The agents of a scenario. Models and tools answer by what they are given, so a run without faults has one right log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from actors import (
    START,
    AgentTool,
    BaseAgent,
    CallbackContext,
    Content,
    CustomAgent,
    Event,
    EventActions,
    Flow,
    FlowAgent,
    FunctionCall,
    FunctionTool,
    Graph,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    Part,
    RetryConfig,
    SequentialAgent,
    Task,
    Tool,
    ToolContext,
    exit_loop,
)
from actors import node as retried
from actors.messages.json_types import JsonObject, JsonValue
from tests.model.history import History, ToolRun
from tests.model.said import NEWEST
from tests.simulation.cluster import HostProcess
from tests.simulation.scenarios import Node
from tests.simulation.scripts import QUOTED, digest, scripted, usage
from tests.simulation.virtual_loop import PROCESS, VirtualLoop
from tests.support.agents.failing_agents import SKIP, FailingCallback, restart
from tests.support.agents.workflow_agents import count_begun, count_ended
from tests.support.models.metered_model import tokens_of

replaced = msgspec.structs.replace

UNDER_WAY: dict[str, HostProcess] = {}
"""The calls for which `work` runs now in a simulation, and where; also those of processes that were lost or stopped."""

PATIENCE_S = 20.0
"""So long an agent is waited for that may be late: longer than what goes wrong holds it up."""

LINGERS_S = 8.0
"""How long the tool takes that an agent calls again and again that is late."""

PIECE_S = 0.05
"""How long a model that streams takes for each piece."""

TWICE: list[str] = []
"""The calls that were repeated while they were under way, in a process that the Runner had not given up."""


def history_here() -> History:
    """The history of the simulation that runs now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.history


Notes = Callable[[], History]
"""Gives the history in which agents note what they do. It is part of their definitions, and sent with them."""


@contextmanager
def under_way(call_id: str) -> Iterator[None]:
    """In the block a call runs. Outside of simulations it says nothing."""
    here, before = PROCESS.get(), UNDER_WAY.get(call_id)
    if not isinstance(here, HostProcess):
        yield
        return
    if before is not None and before.is_in_use and before.runner is here.runner:
        TWICE.append(call_id)
    UNDER_WAY[call_id] = here
    try:
        yield
    finally:
        if UNDER_WAY.get(call_id) is here:
            del UNDER_WAY[call_id]


class Tools:
    """What the tools of LLM agents do."""

    def __init__(self, notes: Notes = history_here) -> None:
        self._notes = notes

    async def work(self, key: str, s: float, tool_context: ToolContext) -> str:
        """Work for a while."""
        noted = begun(self._notes(), tool_context)
        noted.saw_first = dict(tool_context.state)
        is_first = key.endswith("_0")
        with under_way(tool_context.function_call_id):
            if not is_first:
                self._set_newest(key, noted, tool_context)
            if s:
                await asyncio.sleep(s)
        if is_first:
            self._set_newest(key, noted, tool_context)
        self._notes().end_tool(noted)
        noted.saw = dict(tool_context.state)
        tool_context.state[key] = key
        self._notes().write(noted, key, key)
        return key

    def _set_newest(self, key: str, noted: ToolRun, tool_context: ToolContext) -> None:
        """Set a key that all calls of an answer set: the first one when it ends, the others when they begin."""
        newest = key.rpartition("_")[0] + NEWEST
        tool_context.state[newest] = key
        self._notes().write(noted, newest, key)

    async def linger(self, tool_context: ToolContext) -> str:
        """Take long."""
        begun(self._notes(), tool_context)
        await asyncio.sleep(LINGERS_S)
        return "later"

    async def confirm(self, key: str, tool_context: ToolContext) -> str:
        """Work, if the user says yes."""
        begun(self._notes(), tool_context)
        tool_context.state[key] = key
        return key

    async def note(self, key: str, tool_context: ToolContext) -> str:
        """Write state of all scopes."""
        noted = begun(self._notes(), tool_context)
        noted.saw_first = dict(tool_context.state)
        for scope in ("", "user:", "app:", "temp:"):
            tool_context.state[name := f"{scope}{tool_context.agent_name}_noted"] = key
            self._notes().write(noted, name, key)
        return key

    def all(self) -> Sequence[Tool]:
        """The tools of every LLM agent."""
        confirm = FunctionTool(self.confirm, require_confirmation=True)
        waiting = LongRunningFunctionTool(ask)
        return FunctionTool(self.work), confirm, waiting, exit_loop, FunctionTool(escalate), FunctionTool(self.linger)

    def more(self) -> Sequence[Tool]:
        """Those that agents of conversations have besides."""
        return FunctionTool(self.note), FunctionTool(break_down)


def ask() -> None:
    """Ask the user."""


def break_down() -> None:
    """Break down."""
    raise OSError("it breaks down")


def escalate(tool_context: ToolContext) -> None:
    """Escalate, and go on."""
    tool_context.actions.escalate = True


def process_here() -> str:
    """The process of a simulation; "" outside."""
    here = PROCESS.get()
    return here.name if here is not None else ""


def runner_here() -> str:
    """The Runner's process that has started this one; "" outside of simulations."""
    here = PROCESS.get()
    return here.runner.name if isinstance(here, HostProcess) and here.runner is not None else ""


def begun(notes: History, context: ToolContext) -> ToolRun:
    """Note that a tool begins, and where."""
    noted = notes.begin_tool(context.function_call_id)
    noted.process, noted.runner = process_here(), runner_here()
    return noted


class Expert(AgentTool):
    """An agent as a tool, which is waited for `patience_s` seconds; None: for ever. A simulation knows when it was asked."""

    def __init__(self, agent: BaseAgent, patience_s: float | None) -> None:
        super().__init__(agent)
        self._patience_s = patience_s

    async def run(self, args: JsonObject, context: ToolContext) -> JsonValue:
        notes = history_here() if process_here() else History()
        noted = begun(notes, context)
        noted.asks = True
        async with asyncio.timeout(self._patience_s):
            answer = await super().run(args, context)
        notes.end_tool(noted)
        return answer


WORK = FunctionTool(Tools().work)


def forget_calls() -> None:
    """Begin another simulation."""
    UNDER_WAY.clear()
    TWICE.clear()


class Late:
    """A before_model_callback that has the first runs of an agent take longer than anything waits."""

    def __init__(self, times: int) -> None:
        self._times = times

    def __call__(self, context: CallbackContext, request: LlmRequest) -> LlmResponse | None:
        if context.state[f"{context.agent_name}_begun"] > self._times:
            return None
        return LlmResponse(content=Content(role="model", parts=[Part(function_call=FunctionCall(name="linger"))]))


class StepModel:
    """Gives the step of an agent's script that follows from how often the agent has spoken since the user's last message."""

    def __init__(self, node: Node, notes: Notes = history_here) -> None:
        self._node = node
        self._notes = notes

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        self._notes().ask_model(self._node.name, turn_asked(request.contents), request.contents, runner_here())
        if self._node.thinks_s:
            await asyncio.sleep(self._node.thinks_s)
        parts = self._parts(request)
        if stream:
            for piece in self._pieces("".join(part.text for part in parts if part.text)):
                if self._node.pieces:
                    await asyncio.sleep(PIECE_S)
                yield LlmResponse(content=Content.of_text(piece, role="model"), partial=True)
        yield LlmResponse(
            content=Content(role="model", parts=self._named(parts, request)), usage=usage(self._node, request.contents)
        )

    def _named(self, parts: Sequence[Part], request: LlmRequest) -> Sequence[Part]:
        """Every second model of a simulation gives all calls the same id that agents of a turn make at about the same time."""
        turn = turn_asked(request.contents)
        if sum(self._node.name.encode()) % 2 or not process_here() or not turn:
            return parts
        # A call that takes the place of one that was taken back comes later.
        same = f"call_{int(asyncio.get_running_loop().time() * 100)}"
        return [
            replaced(part, function_call=replaced(part.function_call, id=same)) if part.function_call is not None else part
            for part in parts
        ]

    def _parts(self, request: LlmRequest) -> Sequence[Part]:
        return scripted(self._node, request.contents, ends=self._ends(request), told=digest(request) if self._node.told else "")

    def _ends(self, request: LlmRequest) -> bool:
        """Two in three models end when they are told to."""
        return "End now" in request.system_instruction and sum(self._node.name.encode()) % 3 > 0

    def _pieces(self, text: str) -> Sequence[str]:
        size = -(-len(text) // max(1, self._node.pieces)) or 1
        return [text[first : first + size] for first in range(0, len(text), size)]


def turn_asked(contents: Sequence[Content]) -> str:
    """The turn that the only text of the user names; "" where there are several, or it names none."""
    texts = [each.text for each in contents if each.role == "user" and each.text and not each.text.startswith(QUOTED)]
    return texts[0].removeprefix("do ") if len(texts) == 1 and texts[0].startswith("do ") else ""


class OtherModel:
    """The model that a budget names in place of an agent's: it says something, or finishes a task."""

    name = "other"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Respond by the request alone."""
        finish = next((tool.name for tool in request.tools if tool.name.startswith("succeed_")), "")
        part = Part(function_call=FunctionCall(name=finish, args={"result": "other"})) if finish else Part(text="other says")
        yield LlmResponse(content=Content(role="model", parts=[part]), usage=tokens_of(request))


def model_of(agent: str, model: Any) -> Any:
    """The model that an agent's `model` names, or is."""
    return OtherModel() if model == OtherModel.name else model


class TaskModel:
    """An agent in a flow: it works, then finishes the first of its tasks."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Respond by the request alone."""
        answered = next(request.contents[-1].function_responses(), None)
        finish = next(tool.name for tool in request.tools if tool.name.startswith("succeed_"))
        if answered is not None and answered.name == "work":
            call = FunctionCall(name=finish, args={"result": f"{finish} by {self._name}"})
        else:
            call = FunctionCall(name="work", args={"key": f"{self._name}_{finish}", "s": 0.05})
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call)]), usage=tokens_of(request))


class Says(CustomAgent):
    """Says so many texts, with a change of state each."""

    times: int = 1

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for number in range(self.times):
            text = f"{self.name} says {number}"
            yield Event(
                content=Content.of_text(text, role="model"), actions=EventActions(state_delta={f"{self.name}_{number}": 1})
            )


class RunsChildren(CustomAgent):
    """Speaks, runs each of its children, and speaks again, unless one was late. In its actor it is without them.

    Attributes:
        names: of its children. `told`: keys of the state whose values it says at last.
        impatient_for: those that may be late.
    """

    names: Sequence[str]
    told: Sequence[str] = ()
    impatient_for: Sequence[str] = ()

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        yield Event(content=Content.of_text(f"{self.name} begins", role="model"))
        for name in self.names:
            try:
                async with asyncio.timeout(PATIENCE_S if name in self.impatient_for else None):
                    outcome = await context.run_agent(name)
            except TimeoutError:
                return
            if type(outcome).__name__ != "Finished":
                return
        told = [str(context.state.get(key)) for key in self.told]
        yield Event(content=Content.of_text(" ".join((self.name, "ends", *told)), role="model"))


def build(node: Node, notes: Notes = history_here, *, is_root: bool = True) -> BaseAgent:
    """The agent of a node, with all below it."""
    children = [build(child, notes, is_root=False) for child in node.children]
    supervision: dict[str, Any] = {}
    if node.supervision:
        supervision = {"supervision": SKIP if node.supervision == "skip" else restart(3, backoff_s=0.2, within_s=100_000)}
    match node.kind:
        case "llm":
            return _llm(node, children, notes, is_root=is_root)
        case "says":
            return Says(name=node.name, times=node.times)
        case "custom":
            late = [child.name for child in node.children if _is_late(child)]
            names = [child.name for child in children]
            return RunsChildren(name=node.name, sub_agents=children, names=names, told=node.told, impatient_for=late)
        case "flow":
            return _flow(node, notes)
        case "graph":
            return _graph(node, children)
        case "seq":
            return SequentialAgent(name=node.name, sub_agents=children, **supervision)
        case "par":
            return ParallelAgent(name=node.name, sub_agents=children, **supervision)
    on_escalate: Any = "absorb" if node.absorbs else "propagate"
    return LoopAgent(name=node.name, sub_agents=children, max_iterations=node.times, on_escalate=on_escalate, **supervision)


def _is_late(node: Node) -> bool:
    return any(each.is_late for each in node.all())


def _llm(node: Node, children: list[BaseAgent], notes: Notes, *, is_root: bool) -> BaseAgent:
    experts = [Expert(build(expert, notes, is_root=False), PATIENCE_S if _is_late(expert) else None) for expert in node.experts]
    callbacks: dict[str, Any] = {}
    if node.fails or node.counts:
        callbacks["before_agent_callback"] = count_begun
    if node.counts:
        callbacks["after_agent_callback"] = count_ended
    if node.fails:
        callbacks["before_model_callback"] = Late(node.fails) if node.is_late else FailingCallback(node.fails, False)
    tools = [*Tools(notes).all(), *experts, *(Tools(notes).more() if node.told or node.manners else ())]
    if node.told:
        values = "|".join(f"{{{key}?}}" for key in node.told)
        callbacks |= {"instruction": f"<<{values}>> ${{x}}", "description": f"knows_{node.name}"}
        callbacks |= {"global_instruction": "<<all {asked_1?}>>"} if is_root else {}
    if "hooked" in node.manners:
        callbacks |= HOOKS
    for manner in node.manners:
        callbacks |= FIELDS.get(manner, {"output_key": f"{node.name}_out"} if manner in ("keeps", "lists") else {})
    if "lists" in node.manners:
        callbacks["output_schema"] = list[str]
    return LlmAgent(name=node.name, model=StepModel(node, notes), sub_agents=children, tools=tools, **callbacks)


FIELDS: Mapping[str, dict[str, Any]] = {
    "brief": {"include_contents": "none"},
    "stays": {"disallow_transfer_to_parent": True},
    "alone": {"disallow_transfer_to_peers": True},
}
"""Fields of agents with these manners. What is set at all may change what an agent is as a node."""


def _count_asked(context: CallbackContext, request: LlmRequest) -> LlmResponse | None:
    """Count model calls in the state; the agent answers every fourth one itself."""
    key = f"{context.agent_name}_asked"
    context.state[key] = asked = context.state.get(key, 0) + 1
    return None if asked % 4 else LlmResponse(content=Content.of_text(f'["{context.agent_name} answers itself"]', role="model"))


def _count_answers(context: CallbackContext, response: LlmResponse) -> None:
    """Count answers in the state, and in what they say besides."""
    if not response.partial:
        key = f"{context.agent_name}_heard"
        context.state[key] = heard = context.state.get(key, 0) + 1
        # It is a draft, whose fields may be set.
        response.custom_metadata = {"heard": heard}  # type: ignore[misc]


def _in_place_of_second(tool: Tool, args: JsonObject, context: ToolContext) -> JsonObject | None:
    """The result of every second of several calls, which are not made."""
    return {"result": "instead"} if str(args.get("key")).endswith("_1") else None


def _more_of_result(tool: Tool, args: JsonObject, context: ToolContext, result: JsonValue) -> JsonValue:
    return f"{result}!" if tool.name == "note" and isinstance(result, str) else None


def _nothing(*_: object) -> None: ...


def _in_place_of_error(tool: Tool, args: JsonObject, context: ToolContext, error: Exception) -> JsonObject | None:
    return {"result": "mended"} if tool.name == "break_down" else None


HOOKS = {
    "before_model_callback": _count_asked,
    "after_model_callback": _count_answers,
    "before_tool_callback": _in_place_of_second,
    "after_tool_callback": [_nothing, _more_of_result],
    "on_tool_error_callback": _in_place_of_error,
}
"""The callbacks of agents that are hooked."""


def _graph(node: Node, children: list[BaseAgent]) -> BaseAgent:
    retry = RetryConfig(max_attempts=4, initial_delay=0.2)
    first, *rest = (
        retried(child, retry_config=retry, timeout=PATIENCE_S if _is_late(below) else None)
        for child, below in zip(children, node.children, strict=True)
    )
    edges = [(START, first, *rest)] if node.times == 1 else [(START, first), *((first, each) for each in rest)]
    return Graph(name=node.name, edges=edges)


def _flow(node: Node, notes: Notes) -> BaseAgent:
    names = [f"{node.name}_{n}" for n in range(len(node.tasks))]
    agents = [LlmAgent(name=name, model=TaskModel(name), tools=[FunctionTool(Tools(notes).work)]) for name in names]
    tasks = [
        Task(f"Do {n}", name=f"{node.name}_t{n}", agents=[agents[n]], depends_on=[f"{node.name}_t{need}" for need in needs])
        for n, needs in enumerate(node.tasks)
    ]
    return FlowAgent(Flow(tasks, agents=agents, name=node.name))
