"""Programs in the style of ADK's samples. Nothing in them knows of raygrove."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from google.adk.agents import Agent, BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.planners import BasePlanner, BuiltInPlanner, PlanReActPlanner
from google.adk.tools import AgentTool, BaseTool, FunctionTool, LongRunningFunctionTool, exit_loop, google_search
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.openapi_tool import OpenAPIToolset
from google.adk.workflow import Workflow
from google.genai import types
from pydantic import BaseModel

from tests.adk.notes import log, noted

DRAWERS = ".drawers"
"""Names the file of notes about drawers."""


class Scripted(BaseLlm):  # type: ignore[misc]
    """A model without a network: its n-th step comes after the n-th tool response. It may show what it was sent.

    A step is a text, a call as (name, args), a list of calls, or "show:…" for a part of the request.
    """

    model: str = "scripted"
    steps: Sequence[Any] = ("ok",)
    is_noted: bool = False

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        responses = [part for content in llm_request.contents for part in content.parts or () if part.function_response]
        step = self.steps[min(len(responses), len(self.steps) - 1)]
        if self.is_noted:
            noted(f"model {len(responses)}")
        if isinstance(step, list):
            calls = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in step]
            yield LlmResponse(content=types.Content(role="model", parts=calls))
            return
        if isinstance(step, tuple):
            part = types.Part(function_call=types.FunctionCall(name=step[0], args=step[1]))
        else:
            part = types.Part(text=self.shown(step, llm_request) if step.startswith("show:") else step)
        if stream and part.text:
            half = len(part.text) // 2
            for text in (part.text[:half], part.text[half:]):
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def shown(self, step: str, request: LlmRequest) -> str:
        match step.removeprefix("show:"):
            case "instruction":
                return str(request.config.system_instruction)
            case "last":
                return request.contents[-1].parts[0].text or str(request.contents[-1].parts[0].function_response.response)
            case "texts":
                return " | ".join(part.text for content in request.contents for part in content.parts if part.text)
            case "temperature":
                return str(request.config.temperature)
            case "thinking":
                return str(request.config.thinking_config and request.config.thinking_config.thinking_budget)
            case "tools":
                names = []
                for tool in request.config.tools or ():
                    names += [each.name for each in tool.function_declarations or ()]
                    names += [name for name in ("google_search", "code_execution", "url_context") if getattr(tool, name)]
                return " ".join(names)
        raise ValueError(step)


def agent(name: str, *steps: Any, **fields: Any) -> LlmAgent:
    # The name is one of Gemini's, since ADK gives built-in tools to no other.
    return Agent(name=name, model=Scripted(model="gemini-2.5-flash", steps=list(steps) or ["ok"]), **fields)


# Tools.


def get_weather(city: str, unit: str = "C") -> dict[str, str]:
    """Tell the weather.

    Args:
        city: where.
    """
    return {"status": "success", "report": f"{city}: 20 {unit}"}


async def remember(what: str, tool_context: Any) -> str:
    """Keep something."""
    tool_context.state["kept"] = what
    tool_context.state["user:kept"] = what
    await tool_context.save_artifact("note.txt", types.Part.from_text(text=what))
    found = await tool_context.load_artifact("note.txt")
    names = await tool_context.list_artifacts()
    return f"{tool_context.agent_name} kept {found.text} in {names[0]}"


def ask_boss(amount: int) -> dict[str, str] | None:
    """Ask for consent."""
    return None if amount > 100 else {"status": "approved"}


def delete_all() -> str:
    """Delete everything."""
    return "deleted"


class Doubler(BaseTool):  # type: ignore[misc]
    """A BaseTool of the user's own, which also says something in the request."""

    def __init__(self) -> None:
        super().__init__(name="double", description="Double a number.")

    def _get_declaration(self) -> types.FunctionDeclaration:
        number = types.Schema(type=types.Type.INTEGER)
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters=types.Schema(type=types.Type.OBJECT, properties={"n": number}, required=["n"]),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return args["n"] * 2

    async def process_llm_request(self, *, tool_context: Any, llm_request: LlmRequest) -> None:
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions(["You can double."])


async def is_large(amount: int, tool_context: Any) -> bool:
    return amount > 100 and tool_context.state.get("strict", True)


def pay(amount: int, tool_context: Any) -> str:
    """Pay."""
    return f"paid {amount}"


weather = agent("weather", ("get_weather", {"city": "Rome", "made_up": 1}), "show:last", tools=[get_weather])
keeper = agent("keeper", ("remember", {"what": "milk"}), "show:last", tools=[FunctionTool(func=remember)])
doubler = agent("doubler", ("double", {"n": 21}), "show:last", tools=[Doubler()])
doubler_says = agent("doubler_says", "show:instruction", tools=[Doubler()])
expenses = agent("expenses", ("ask_boss", {"amount": 500}), "show:last", tools=[LongRunningFunctionTool(func=ask_boss)])
careful = agent("careful", ("delete_all", {}), "show:last", tools=[FunctionTool(func=delete_all, require_confirmation=True)])
payer_tools = [FunctionTool(func=pay, require_confirmation=is_large)]
payer = agent("payer", ("pay", {"amount": 50}), ("pay", {"amount": 500}), "show:last", tools=payer_tools)
hasty = agent("hasty", ("pay", {}), "show:last", tools=payer_tools)
searcher = agent("searcher", "show:tools", tools=[google_search, get_weather])
coder = agent("coder", "show:tools", code_executor=BuiltInCodeExecutor())


class Drawer(BaseToolset):  # type: ignore[misc]
    """Tools by the session's state. It also has a say in requests."""

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        if readonly_context.state.get("broken"):
            raise OSError("the server is away")
        return [FunctionTool(get_weather), *([Doubler()] if readonly_context.state.get("may_double") else [])]

    async def process_llm_request(self, *, tool_context: Any, llm_request: LlmRequest) -> None:
        llm_request.append_instructions(["There is a drawer."])

    async def close(self) -> None:
        noted("drawer closed", DRAWERS)


PETS = {
    "openapi": "3.0.0",
    "info": {"title": "pets", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:1"}],
    "paths": {"/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "all pets"}}}}},
}
drawer = agent("drawer", ("d_get_weather", {"city": "Rome"}), "show:last", tools=[Drawer(tool_name_prefix="d")])
drawer_tools = agent("drawer_tools", "show:tools", tools=[Drawer()])
drawer_says = agent("drawer_says", "show:instruction", tools=[Drawer()])
pets = agent("pets", ("list_pets", {}), "show:last", tools=[OpenAPIToolset(spec_dict=PETS)])

# Instructions, planners, configuration.


def instruct(context: Any) -> str:
    return f"Serve {context.state.get('user:kept', 'no one')} as {context.agent_name}."


templated = agent("templated", "show:instruction", instruction="Say {greeting?} to them.", static_instruction="Never lie.")
instructed = agent("instructed", "show:texts", instruction="Say {greeting?} to them.", static_instruction="Never lie.")
provided = agent("provided", "show:instruction", instruction=instruct)


class Shouts(BasePlanner):  # type: ignore[misc]
    """A planner as users write them."""

    def build_planning_instruction(self, readonly_context: Any, llm_request: LlmRequest) -> str:
        return f"Shout, {readonly_context.agent_name}."

    def process_planning_response(self, callback_context: Any, response_parts: list[types.Part]) -> None:
        callback_context.state["shouted"] = True
        for part in response_parts:
            part.text = part.text and part.text.upper()


shouter = agent("shouter", "show:instruction", planner=Shouts())
planner = agent("planner", "/*PLANNING*/ think /*FINAL_ANSWER*/ done", planner=PlanReActPlanner())
thinker = agent("thinker", "show:thinking", planner=BuiltInPlanner(thinking_config=types.ThinkingConfig(thinking_budget=7)))
configured = agent("configured", "show:temperature", generate_content_config=types.GenerateContentConfig(temperature=0.25))

# Callbacks.


def guard(callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:
    if "BLOCK" in (llm_request.contents[-1].parts[0].text or ""):
        callback_context.state["blocked"] = True
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="I cannot.")]))
    llm_request.config.system_instruction = "rewritten"
    llm_request.config.temperature = 0.5
    llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="and be brief")]))
    return None


def shout(callback_context: Any, llm_response: LlmResponse) -> None:
    llm_response.content.parts[0].text = llm_response.content.parts[0].text.upper()


def greet(callback_context: Any) -> types.Content | None:
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
    return None


async def sign(callback_context: Any) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=f"signed by {callback_context.agent_name}")])


def adapt_args(args: dict[str, Any], tool: BaseTool, tool_context: Any) -> dict[str, str] | None:
    if args["city"] == "Atlantis":
        return {"report": f"{tool.name} does not know it"}
    args["unit"] = "F"
    return None


def add_source(tool: BaseTool, args: dict[str, Any], tool_context: Any, tool_response: dict[str, Any]) -> None:
    tool_response["source"] = f"session: {len(tool_context.session.id) > 0}"


def apologise(callback_context: Any, llm_request: LlmRequest, error: Exception) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"sorry: {error}")]))


class Broken(Scripted):
    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        raise OSError("no network")
        yield  # type: ignore[unreachable]


guarded = agent("guarded", "show:texts", before_model_callback=[guard], after_model_callback=shout)
signed = agent("signed", "hello", before_agent_callback=greet, after_agent_callback=[sign])
adapted = agent(
    "adapted",
    ("get_weather", {"city": "Oslo"}),
    ("get_weather", {"city": "Atlantis"}),
    "show:last",
    tools=[get_weather],
    before_tool_callback=adapt_args,
    after_tool_callback=add_source,
)
sorry = Agent(name="sorry", model=Broken(), on_model_error_callback=apologise)


class OwnWorkflow(Workflow):  # type: ignore[misc]
    """A Workflow that runs its nodes by code of its own, so that it is no graph of actors."""

    async def _run_impl(self, *, ctx: Any, node_input: Any) -> Any:
        async for event in super()._run_impl(ctx=ctx, node_input=node_input):
            yield event


# Workflows and teams.

pipeline = SequentialAgent(
    name="pipeline",
    sub_agents=[
        agent("writer", "a draft", output_key="draft"),
        agent("reviewer", "show:instruction", instruction="Review: {draft}", output_key="review"),
    ],
)
fan = ParallelAgent(name="fan", sub_agents=[agent("left", "L", output_key="left"), agent("right", "R", output_key="right")])
refine = LoopAgent(
    name="refine", max_iterations=3, sub_agents=[agent("improve", "better"), agent("judge", ("exit_loop", {}), tools=[exit_loop])]
)
again = LoopAgent(name="again", max_iterations=2, sub_agents=[agent("repeat", "once more")])


def know(callback_context: Any, llm_request: LlmRequest) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="I know it.")]))


team = agent(
    "team",
    ("transfer_to_agent", {"agent_name": "specialist"}),
    sub_agents=[Agent(name="specialist", description="Knows.", before_model_callback=know)],
)


class Question(BaseModel):
    topic: str


class Answer(BaseModel):
    text: str
    score: int


expert = agent("expert", '{"text": "42", "score": 9}', description="Knows all.", input_schema=Question, output_schema=Answer)
asker = agent("asker", ("expert", {"topic": "life"}), "show:last", tools=[AgentTool(agent=expert)])


class Conditional(BaseAgent):  # type: ignore[misc]
    """Runs its second child only if the first one's output says so, as the storyflow sample does."""

    first: LlmAgent
    second: SequentialAgent

    def __init__(self, name: str, first: LlmAgent, second: SequentialAgent) -> None:
        super().__init__(name=name, first=first, second=second, sub_agents=[first, second])

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        said = []
        async for event in self.first.run_async(ctx):
            said.append(event.content.parts[0].text)
            yield event
        tone = ctx.session.state["tone"]
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=f"{said} {tone} {len(ctx.session.events) > 1}")]),
            actions=EventActions(state_delta={"mid": tone}),
        )
        if ctx.session.state["mid"] == "negative":
            async for event in self.second.run_async(ctx):
                yield event


story = Conditional(
    "story",
    agent("toner", "negative", output_key="tone"),
    SequentialAgent(name="rewrite", sub_agents=[agent("rewriter", "a better one")]),
)


class Direct(BaseAgent):  # type: ignore[misc]
    """Writes into the session's state, past any event."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        ctx.session.state["tone"] = "grave"
        ctx.session.state["list"] = ["a"]
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        ctx.session.state["list"].append("b")
        text = f"{ctx.session.state['tone']} {ctx.session.state['seen']}"
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text=text)]))
        del ctx.session.state["tone"]


def note_seen(callback_context: Any) -> None:
    callback_context._invocation_context.session.state["seen"] = callback_context.state["tone"]


direct = Direct(
    name="direct", sub_agents=[agent("speaker", "show:instruction", instruction="Be {tone}.", before_agent_callback=note_seen)]
)


class Checker(BaseAgent):  # type: ignore[misc]
    """Ends a loop, as the checkers of the samples do."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        rounds = ctx.session.state.get("rounds", 0) + 1
        yield Event(author=self.name, actions=EventActions(state_delta={"rounds": rounds}, escalate=rounds >= 2))


checked = LoopAgent(name="checked", max_iterations=5, sub_agents=[agent("work", "worked"), Checker(name="checker")])


# A process that is killed in the middle of a tool, once.


def first_tool(tool_context: Any) -> str:
    """The tool that finishes."""
    noted("first")
    return "one"


def deadly_tool() -> str:
    """The tool in which the process dies."""
    died = log().with_suffix(".died")
    noted("deadly")
    if not died.exists() and os.environ["ADK_TEST_PID"] != str(os.getpid()):
        died.touch()
        os._exit(1)
    return "two"


mortal = Agent(
    name="mortal",
    model=Scripted(is_noted=True, steps=[("first_tool", {}), ("deadly_tool", {}), "survived"]),
    tools=[first_tool, deadly_tool],
)


class Router(BaseAgent):  # type: ignore[misc]
    """Runs the child that the message names, as `name: text`."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        # The message that goes on after a pause is the answer to a call.
        said = [event.content.parts[0].text for event in ctx.session.events if event.author == "user"]
        name = [text for text in said if text][-1].partition(":")[0]
        child = next(each for each in self.sub_agents if each.name == name)
        async for event in child.run_async(ctx):
            yield event


root_agent = Router(
    name="router",
    sub_agents=[
        *(
            weather,
            keeper,
            doubler,
            doubler_says,
            expenses,
            careful,
            payer,
            hasty,
            searcher,
            coder,
            drawer,
            drawer_tools,
            drawer_says,
            pets,
        ),
        *(templated, instructed, provided, planner, shouter, thinker, configured, guarded, signed, adapted, sorry),
        *(pipeline, fan, refine, again, team, asker, story, direct, checked, mortal),
    ],
)
