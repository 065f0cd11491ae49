"""Programs for what ADK's own tests do not look at, and for what is new in it since 2.5."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.models import FallbackModel, LlmRequest, LlmResponse
from google.adk.plugins._reflect_retry_model_plugin import ReflectAndRetryModelPlugin
from google.adk.plugins._tool_call_integrity_plugin import ToolCallIntegrityPlugin
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from google.adk.tools import AgentTool, ToolContext, load_artifacts, load_memory, preload_memory
from google.adk.tools.model_consult import ModelConsultTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.adk.workflow import START, FunctionNode, Workflow
from google.genai import types
from google.genai.errors import ServerError
from pydantic import BaseModel, Field

from tests.adk.programs import Doubler, Scripted, agent, get_weather
from tests.adk.wholes import Program


class Point(BaseModel):
    x: int
    y: int = 0


def guard(callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
    text = llm_response.content.parts[0].text or ""
    return llm_response.model_copy(
        update={"content": types.Content(role="model", parts=[types.Part(text=text.replace("SECRET", "*****"))])}
    )


def counting(callback_context: Any, llm_response: LlmResponse) -> None:
    callback_context.state["seen"] = [*callback_context.state.get("seen", []), bool(llm_response.partial)]


class Guard(BasePlugin):  # type: ignore[misc]
    async def after_model_callback(self, *, callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
        return guard(callback_context, llm_response)


async def save(text: str, tool_context: ToolContext) -> dict[str, int]:
    """Save."""
    return {"version": await tool_context.save_artifact("a.txt", types.Part.from_text(text=text))}


async def remember(callback_context: Any) -> None:
    await callback_context.add_session_to_memory()


def reader(*tools: Any) -> LlmAgent:
    steps = [("load_memory", {"query": "dog"}), "the dog is Rex"] if load_memory in tools else ["It is a dog."]
    return agent("reader", *steps, tools=list(tools), after_agent_callback=remember)


MEMORIES = [("s1", "my dog is called Rex"), ("s2", "what is the name of my dog")]


async def watch(what: str) -> AsyncGenerator[Any, None]:
    """Watch."""
    yield {"seen": what}


def counts(n: int) -> Iterator[int]:
    """Count."""
    yield n + 1


async def notes(what: str, tool_context: ToolContext) -> AsyncGenerator[Any, None]:
    """Note."""
    tool_context.state["noted"] = what
    yield what


async def gives_nothing() -> AsyncGenerator[Any, None]:
    """Give nothing."""
    for _ in ():
        yield


def gathers(first: str, second: str) -> str:
    return f"{first} {second}"


async def runs_nodes(what: str, tool_context: ToolContext) -> Any:
    """Run a node."""

    def shout(node_input: str) -> str:
        return node_input.upper()

    return await tool_context.run_node(FunctionNode(func=shout, name="shout", rerun_on_resume=True), what, raise_on_wait=True)


def peers() -> Workflow:
    """The agent of a node hands over, and so does the one after it."""
    over = ("transfer_to_agent", {"agent_name": "second"})
    second = agent("second", "from the second", description="Second.")
    first = agent("first", over, description="First.")
    desk = agent("desk", ("transfer_to_agent", {"agent_name": "first"}), sub_agents=[first, second])
    return Workflow(name="wf", edges=[(START, desk)])


def boss(mode: str) -> LlmAgent:
    """An agent with a delegate."""
    helper = agent("helper", "helped", description="Helps.", mode=mode, instruction="Help.")
    return agent("boss", ("helper", {"request": "help me"}), "done", sub_agents=[helper], instruction="Have helpers.")


def chosen(node_input: Any) -> str:
    return f"chosen {node_input}"


def pay(node_input: Any) -> str:
    return f"paid {node_input}"


def careful() -> Workflow:
    node = FunctionNode(func=pay, name="pay", require_confirmation=True, rerun_on_resume=True)
    return Workflow(name="wf", edges=[(START, chosen, node)])


class Failing(Scripted):
    """A model that is away."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        raise ServerError(503, {"error": {"message": "away"}})
        yield  # type: ignore[unreachable]


def fallen_back() -> LlmAgent:
    return LlmAgent(name="falls", model=FallbackModel(models=[Failing(), Scripted(steps=["from the second"])]))


def fails(what: str) -> str:
    """Fail once."""
    if what == "wrong":
        raise ValueError("wrong")
    return what


def reflecting() -> App:
    root = agent("root", ("fails", {"what": "wrong"}), ("fails", {"what": "right"}), "show:last", tools=[fails])
    return App(name="reflecting", root_agent=root, plugins=[ReflectAndRetryToolPlugin(max_retries=2)])


def label(callback_context: Any, llm_request: LlmRequest) -> None:
    llm_request.config.labels = {"mine": "yes"}


def tells_tools(callback_context: Any, llm_request: LlmRequest) -> None:
    callback_context.state["tools"] = {name: type(tool).__name__ for name, tool in sorted(llm_request.tools_dict.items())}


def metadata(callback_context: Any) -> None:
    callback_context.state["branch"] = [callback_context.agent_name, callback_context.user_id]


def sequence() -> Workflow:
    first = agent("first", '{"x": 1}', output_schema=Point, output_key="point", instruction="Point.")
    return Workflow(name="wf", edges=[(START, first, agent("second", "show:last", instruction="At {point}."))])


class Thinking(Scripted):
    """Answers by what it is given: thoughts or blanks alone, and says that it has ended."""

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            if not response.partial:
                response.finish_reason = types.FinishReason.STOP
                response.content.parts[0].thought = response.content.parts[0].text == "thought" or None
            yield response


class OnceMalformed(Scripted):
    """Makes a malformed call first."""

    calls: list[int] = Field(default_factory=list)

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        self.calls.append(len(self.calls))
        async for response in super().generate_content_async(llm_request, stream):
            if len(self.calls) == 1:
                response.finish_reason = types.FinishReason.MALFORMED_FUNCTION_CALL
            yield response


def model_retried() -> App:
    root = LlmAgent(name="root", model=OnceMalformed(steps=["well"]))
    return App(name="retried", root_agent=root, plugins=[ReflectAndRetryModelPlugin(max_retries=2)])


def stamped() -> App:
    root = agent("root", ("get_weather", {"city": "Rome"}), "show:last", tools=[get_weather])
    return App(name="stamped", root_agent=root, plugins=[ToolCallIntegrityPlugin(secret_key=b"k" * 32)])


def consulting() -> LlmAgent:
    advisor = ModelConsultTool(model=Scripted(steps=["look closer"]), max_uses=1)
    steps = [(advisor.name, {"question": "how?"}), (advisor.name, {"question": "again?"}), "show:last"]
    return agent("root", *steps, tools=[advisor], instruction="Ask when unsure.")


def reasoned() -> LlmAgent:
    call = ("transfer_to_agent", {"agent_name": "left", "transfer_reason": "it knows"})
    menu = TransferToAgentTool(["left"], include_transfer_reason=True)
    return agent("root", call, tools=[menu], sub_agents=[agent("left", "from the left", description="Left.")])


def shift(node_input: Point) -> dict[str, int]:
    return {"x": node_input.x + 1}


def with_workflow(*args: Any) -> LlmAgent:
    steps = [("mover", arguments) for arguments in args]
    mover = Workflow(name="mover", description="Moves.", input_schema=Point, edges=[(START, shift)])
    return agent("root", *steps, "show:last", tools=[mover])


def typed(point: Point, names: list[str], note: str | None = None) -> str:
    """Take types."""
    return f"{type(point).__name__} {names} {note}"


expert = LlmAgent(name="expert", description="Knows.", model=Scripted(steps=["42"]), instruction="Know.")

HI = [("s1", "hi")]

PROGRAMS = [
    Program("guarded pieces", lambda: agent("root", "the SECRET is out", after_model_callback=guard), stream=True),
    Program("counted pieces", lambda: agent("root", "one two", after_model_callback=counting), HI, stream=True),
    Program(
        "guarding plugin",
        lambda: App(name="guarding", root_agent=agent("root", "the SECRET is out"), plugins=[Guard(name="guard")]),
        stream=True,
    ),
    Program(
        "streamed calls", lambda: agent("root", ("get_weather", {"city": "Rome"}), "sunny", tools=[get_weather]), stream=True
    ),
    Program("artifacts", lambda: agent("root", ("save", {"text": "one"}), "ok", tools=[save, load_artifacts])),
    Program("artifacts first", lambda: agent("root", ("save", {"text": "one"}), "ok", tools=[load_artifacts, Doubler(), save])),
    Program(
        "loaded artifact",
        lambda: agent(
            "root",
            ("save", {"text": "one"}),
            ("load_artifacts", {"artifact_names": ["a.txt"]}),
            "ok",
            tools=[save, load_artifacts],
        ),
    ),
    Program("loaded memory", lambda: reader(load_memory), MEMORIES),
    Program("preloaded memory", lambda: reader(preload_memory), MEMORIES),
    Program("asynchronous generator", lambda: agent("root", ("watch", {"what": "x"}), "show:last", tools=[watch]), HI),
    Program("generator", lambda: agent("root", ("counts", {"n": 1}), "show:last", tools=[counts]), HI),
    Program("generator with state", lambda: agent("root", ("notes", {"what": "x"}), "show:last", tools=[notes]), HI),
    Program("empty generator", lambda: agent("root", ("gives_nothing", {}), "show:last", tools=[gives_nothing]), HI),
    Program("node of a tool", lambda: agent("root", ("runs_nodes", {"what": "x"}), "show:last", tools=[runs_nodes]), HI),
    Program(
        "agent as node", lambda: Workflow(name="wf", edges=[(START, agent("judge", "show:instruction", instruction="Judge."))])
    ),
    Program("agents as nodes", sequence),
    Program("peers of a node", peers, HI),
    Program("delegate", lambda: boss("single_turn"), HI),
    Program("task", lambda: boss("task"), HI),
    Program("node with consent", careful, [("s1", "ten"), ("s1", {"confirmed": True})]),
    Program("node without consent", careful, [("s1", "ten"), ("s1", {"confirmed": False})]),
    Program("fallback", fallen_back),
    Program("reflecting plugin", reflecting, HI),
    Program("fenced answer", lambda: agent("root", '```json\n{"x": 1}\n```', output_schema=Point, output_key="point"), HI),
    Program(
        "words as input", lambda: Workflow(name="wf", edges=[(START, chosen)], input_schema=str), [("s1", "5"), ("s1", '"q"')]
    ),
    Program("labels", lambda: agent("root", "ok", before_model_callback=label), HI),
    Program(
        "tools of a request",
        lambda: agent("root", "ok", tools=[get_weather, AgentTool(expert), Doubler()], before_model_callback=tells_tools),
        HI,
    ),
    Program(
        "static and global",
        lambda: agent(
            "root",
            "ok",
            static_instruction="Never lie.",
            global_instruction="Be kind.",
            instruction="Help.",
            description="Helps.",
        ),
        HI,
    ),
    Program(
        "global plugin",
        lambda: App(
            name="globals", root_agent=agent("root", "ok", instruction="Help."), plugins=[GlobalInstructionPlugin("Be kind.")]
        ),
        HI,
    ),
    Program("schema with tools", lambda: agent("root", '{"x": 1}', output_schema=Point, tools=[get_weather]), HI),
    Program("unknown tool", lambda: agent("root", ("made_up", {}), "sorry", tools=[get_weather]), HI),
    Program(
        "whole team",
        lambda: agent(
            "root",
            "ok",
            description="Root.",
            sub_agents=[agent("left", description="Left."), agent("right", description="Right.")],
        ),
        HI,
    ),
    Program("sequence", lambda: SequentialAgent(name="both", sub_agents=[agent("one", "1"), agent("two", "2")])),
    Program("context", lambda: agent("root", "ok", before_agent_callback=metadata), HI),
    Program("thought alone", lambda: LlmAgent(name="root", model=Thinking(steps=["thought"])), HI),
    Program("blanks alone", lambda: LlmAgent(name="root", model=Thinking(steps=["  "])), HI),
    Program("streamed thought", lambda: LlmAgent(name="root", model=Thinking(steps=["thought"])), HI, stream=True),
    Program("streamed blanks", lambda: LlmAgent(name="root", model=Thinking(steps=["  "])), HI, stream=True),
    Program("model that is asked again", model_retried, HI),
    Program("stamped calls", stamped, HI),
    Program("consulted model", consulting, HI),
    Program("reason of a transfer", reasoned, HI),
    Program("workflow as tool", lambda: with_workflow({"x": 1}), HI),
    Program("workflow as tool that is asked wrongly", lambda: with_workflow({"x": "one"}, {"x": 2}), HI),
    Program(
        "typed arguments", lambda: agent("root", ("typed", {"point": {"x": 1}, "names": ["a"]}), "show:last", tools=[typed]), HI
    ),
    Program(
        "wrong arguments", lambda: agent("root", ("typed", {"point": {"x": "one"}, "names": "a"}), "show:last", tools=[typed]), HI
    ),
]
