"""The same programs in ADK's own Runner and here say the same: texts, tool calls, results and state."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from google.adk.agents import LoopAgent, ParallelAgent, SequentialAgent
from google.adk.models import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types
from pydantic import BaseModel

from actors import Event
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.support.runtimes import Deploy, stored_state

DIFFERENT = {
    "expenses": "raygrove pauses at a call without a result; ADK asks the model once more",
    "careful": "raygrove asks for consent by the call itself; ADK by a call of adk_request_confirmation",
    "payer": "the same",
    "hasty": "ADK fails when the function that decides about consent lacks an argument",
    "searcher": "the same tools, in another order",
    "instructed": "the instruction beside a static one stands in the conversation in a frame of other words",
    "direct": "ADK forgets at the end of the turn what was written past any event",
    "asker": "the events of an agent that is a tool are in raygrove's log, not in ADK's",
    "mortal": "kills its process",
}
"""Programs that are meant to behave in another way here, and why."""


class Price(BaseModel):
    euros: int


def returns_none(tool_context: Any) -> None:
    """None."""
    tool_context.state["temp:seen"] = 1
    tool_context.state["seen"] = None


def returns_list() -> list[int]:
    """A list."""
    return [1, 2]


def returns_model(price: Price, note: str = "-") -> Price:
    """A model."""
    return Price(euros=price.euros + 1)


def returns_number(n: int, factor: float = 1.5) -> float:
    """A number."""
    return n * factor


def escalates(tool_context: Any) -> dict[str, Any]:
    """Escalate."""
    tool_context.actions.escalate = True
    return {}


def hands_over(tool_context: Any) -> str:
    """Hand the conversation over."""
    tool_context.actions.transfer_to_agent = "taker"
    return "over"


def shows(tool_context: Any) -> dict[str, str]:
    """Show the result to the user."""
    tool_context.actions.skip_summarization = True
    return {"shown": "yes"}


async def adds(item: str, tool_context: Any) -> list[str]:
    """Add an item to what the other calls have added."""
    await asyncio.sleep(0)
    state = tool_context.state
    state["cart"] = [*state.get("cart", []), item]
    state["in place"] = state.get("in place") or []
    state["in place"].append(item)
    return list(state["cart"])


def counts(tool_context: Any) -> None:
    """Count this call."""
    tool_context.state["count"] = tool_context.state.get("count", 0) + 1


def lent(a: int) -> int:
    """Can be called as long as a callback appends it."""
    return a + 1


def lends(callback_context: Any, llm_request: Any) -> None:
    llm_request.append_tools([FunctionTool(lent)])
    callback_context.state["tools"] = sorted(llm_request.tools_dict)


def no_run(callback_context: Any) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=f"{callback_context.agent_name} stays")])


def no_call(tool: Any, args: Any, tool_context: Any) -> dict[str, Any]:
    tool_context.state["prevented"] = tool.name
    return {"instead": args}


def replaced(callback_context: Any, llm_response: Any) -> LlmResponse:
    callback_context.state["user:replaced"] = llm_response.content.parts[0].text
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="replaced")]))


def shows_state(callback_context: Any) -> types.Content:
    state = callback_context.state.to_dict()
    text = f"{sorted(state)} {callback_context.user_content.parts[0].text}"
    return types.Content(role="model", parts=[types.Part(text=text)])


def edges() -> list[Any]:
    """Programs for what is easily done in another way."""
    agent = programs.agent
    calls = [("returns_none", {}), ("returns_list", {}), ("returns_model", {"price": {"euros": 1}}), ("returns_number", {"n": 2})]
    tools = [returns_none, returns_list, returns_model, returns_number]
    given = types.Part(text="a thought", thought=True)
    thinker = LlmResponse(content=types.Content(role="model", parts=[given, types.Part(text='{"euros": 3}')]))
    answer = agent("priced", '{"euros": 2}', output_schema=Price, output_key="price")
    return [
        agent("results", *calls, "show:last", tools=tools),
        LoopAgent(name="looped", max_iterations=3, sub_agents=[agent("up", ("escalates", {}), "up again", tools=[escalates])]),
        agent("giver", ("hands_over", {}), "not said", tools=[hands_over], sub_agents=[agent("taker", "taken")]),
        agent("shower", ("shows", {}), "not said", tools=[shows]),
        agent("stays", "not said", before_agent_callback=[nothing_of_agent, no_run], after_agent_callback=no_run),
        agent("prevents", ("returns_list", {}), "show:last", tools=[returns_list], before_tool_callback=no_call),
        agent("adder", [("adds", {"item": "a"}), ("adds", {"item": "b"})], "", "show:last", tools=[adds]),
        agent("counter", [("counts", {})] * 3, "", "", "counted", tools=[counts]),
        agent("lender", ("lent", {"a": 1}), "show:last", tools=[returns_list], before_model_callback=lends),
        agent("replaces", "said", after_model_callback=[replaced]),
        SequentialAgent(name="steps", sub_agents=[answer, agent("reads", "show:instruction", instruction="It costs {price}.")]),
        agent("thinks", "not said", before_model_callback=lambda callback_context, llm_request: thinker, output_key="thought"),
        agent("states", "hi", output_key="said", after_agent_callback=shows_state),
        agent("alone", "show:texts", include_contents="none"),
        agent("sees", "show:texts"),
        ParallelAgent(name="both", sub_agents=[agent("only", "one of one")]),
        agent("described", "show:instruction", description="Knows.", global_instruction="Be kind to {user:name?}."),
    ]


def nothing_of_agent(callback_context: Any) -> None:
    callback_context.state["seen"] = callback_context.agent_name


root_agent = programs.Router(name="router", sub_agents=edges())

CASES = [
    pytest.param(root, agent.name, id=agent.name)
    for root in (programs.root_agent, root_agent)
    for agent in root.sub_agents
    if agent.name not in DIFFERENT
]


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Runtime]]:
    with ExitStack() as stack:
        deploy = Deploy("local", tmp_path_factory.mktemp("adk"))
        roots = {"samples": programs.root_agent, "edges": root_agent}
        yield {id(root): stack.enter_context(deploy(root, app_name=name)) for name, root in roots.items()}


def plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


def told(event: Any) -> tuple[Any, ...]:
    """An event of either kind, without its ids."""
    parts = event.content.parts if event.content else ()
    texts = [part.text for part in parts or () if part.text]
    calls = [(part.function_call.name, part.function_call.args) for part in parts or () if part.function_call]
    answers = [part.function_response for part in parts or () if part.function_response]
    # ADK's session in memory keeps objects; a database would have their fields.
    results = [(answer.name, {key: plain(value) for key, value in answer.response.items()}) for answer in answers]
    return event.author, texts, calls, results


async def by_adk(root: Any, name: str, turns: int) -> tuple[list[Any], dict[str, Any]]:
    runner = InMemoryRunner(root, app_name="samples")
    session = await runner.session_service.create_session(app_name="samples", user_id="u")
    found = []
    for _ in range(turns):
        message = types.Content(role="user", parts=[types.Part(text=f"{name}: hi")])
        found += [told(event) async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    kept = await runner.session_service.get_session(app_name="samples", user_id="u", session_id=session.id)
    assert kept is not None
    return [each for each in found if any(each[1:])], dict(kept.state)


def by_raygrove(rt: Runtime, name: str, turns: int) -> tuple[list[Any], dict[str, Any]]:
    user = uuid.uuid4().hex
    events: list[Event] = []
    for _ in range(turns):
        events += rt.run(user_id=user, session_id=user, message=f"{name}: hi")
    said = [told(event) for event in events if event.actions.agent_state is None]
    return [each for each in said if any(each[1:])], stored_state(rt, user, user)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("root", "name"), CASES)
def test_a_program_says_the_same(runtimes: dict[int, Runtime], root: Any, name: str) -> None:
    expected, expected_state = asyncio.run(by_adk(root, name, 2))
    said, state = by_raygrove(runtimes[id(root)], name, 2)
    assert said == expected
    assert state == expected_state
