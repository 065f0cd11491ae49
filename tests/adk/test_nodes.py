"""Nodes of ADK's graphs where agents stand otherwise: as the root of an App with plugins, and as the tools of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event, RequestInput
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.logging_plugin import LoggingPlugin
from google.adk.tools import AgentTool
from google.adk.tools._node_tool import NodeTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow import START, FunctionNode, Workflow, node
from pydantic import BaseModel

from actors import Content, FunctionResponse, Part
from actors.errors import DefinitionError
from runtime.adk import from_adk
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.adk.notes import noted, noted_lines
from tests.support.runtimes import Deploy, author_texts, run_turn


class Noting(BasePlugin):  # type: ignore[misc]
    """Notes each point that it hears of, with what it is given."""

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        noted(f"message {invocation_context.agent.name}")

    async def before_run_callback(self, *, invocation_context: Any) -> Any:
        noted(f"before run {invocation_context.agent.name}")

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        noted(f"event {invocation_context.agent.name}")

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        noted(f"after run {invocation_context.agent.name}")

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        noted(f"before agent {agent.name}")

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        noted(f"after agent {agent.name}")


def greet(node_input: Any) -> Event:
    return Event(message="hello")


greeting = Workflow(name="greeting", edges=[(START, greet)])


def test_plugins_are_called_around_a_graph(deploy: Deploy, capfd: pytest.CaptureFixture[str]) -> None:
    app = App(name="greetings", root_agent=greeting, plugins=[LoggingPlugin(), Noting(name="noting")])
    with deploy(app, islands=True) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("greeting", "hello")
    points = ["message", "before run", "before agent", "event", "after agent", "after run"]
    assert list(dict.fromkeys(noted_lines())) == [f"{point} greeting" for point in points]
    if deploy.engine == "local":
        assert "[logging_plugin]" in capfd.readouterr().out


own_greeting = programs.OwnWorkflow(name="greeting", edges=[(START, greet)])


def test_a_note_names_the_hooks_that_are_not_called_inside() -> None:
    adapted = from_adk(
        App(name="greetings", root_agent=own_greeting, plugins=[Noting(name="noting"), Guard(name="guard")]), islands=True
    )
    assert adapted.notes[1:] == ("plugin 'guard': before_model_callback not called inside 'greeting'",)


class Guard(BasePlugin):  # type: ignore[misc]
    """Looks at requests."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Nothing."""


# The nodes that an agent has as tools.


class Customer(BaseModel):
    """Whom to look up."""

    user_id: str


def find(node_input: Customer) -> dict[str, str]:
    noted("find")
    return {"user": node_input.user_id, "tier": "VIP"}


lookup = Workflow(name="lookup", description="Looks a customer up.", input_schema=Customer, edges=[(START, find)])


@node(rerun_on_resume=True)  # type: ignore[untyped-decorator]
def discount(tier: str, ctx: Any) -> Iterator[Any]:
    """The discount of a tier."""
    consent = ctx.resume_inputs.get("consent")
    if not consent:
        yield RequestInput(interrupt_id="consent", message=f"A discount for {tier}?")
        return
    yield f"20% off: {consent}"


def agent(tools: list[Any]) -> LlmAgent:
    steps = [("lookup", {"user_id": "ada"}), ("discount", {"tier": "VIP"}), "show:last"]
    return programs.agent("shop", *steps, tools=tools)


def test_a_graph_and_a_node_are_tools_that_may_ask_a_person(deploy: Deploy) -> None:
    app = App(name="shop", root_agent=agent([lookup, discount]), resumability_config=ResumabilityConfig(is_resumable=True))
    with deploy(app) as rt:
        assert [below.name for below in rt.tree().children] == ["lookup", "discount"]
        events = run_turn(rt, "hi")
        found = [response.response for event in events for response in event.function_responses() if response.name == "lookup"]
        assert found == [{"user": "ada", "tier": "VIP"}]
        waiting = rt.pending(session_id="s1", user_id="ada")
        assert [call.name for call in waiting] == ["adk_request_input"]
        answer = FunctionResponse(id=waiting[0].call_id, name="adk_request_input", response={"result": "yes"})
        answered = run_turn(rt, Content(role="user", parts=[Part(function_response=answer)]))
        assert [text for _, text in author_texts(answered) if text] == ["{'result': '20% off: yes'}"]
        assert noted_lines().count("find") == 1


class Nodes(BaseToolset):  # type: ignore[misc]
    """Gives a node as a tool."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [NodeTool(lookup)]

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("tool", [lookup, NodeTool(lookup)], ids=["graph", "tool of a graph"])
def test_a_graph_is_a_tool_of_actors(tool: Any, deploy: Deploy) -> None:
    root = programs.agent("shop", ("lookup", {"user_id": "ada"}), "show:last", tools=[tool])
    with deploy(root) as rt:
        events = run_turn(rt, "hi")
        assert author_texts(events)[-1] == ("shop", "{'user': 'ada', 'tier': 'VIP'}")
        assert [below.name for below in rt.tree().children] == ["lookup"]
        assert noted_lines().count("find") == 1


@pytest.mark.parametrize("held", [lookup, find], ids=["graph", "function"])
def test_the_tool_of_a_node_has_a_name_of_its_own(held: Any, local: Deploy) -> None:
    tool = NodeTool(held if held is lookup else FunctionNode(func=find), name="look_up", description="Looks up.")
    with local(programs.agent("shop", ("look_up", {"user_id": "ada"}), "show:last", tools=[tool])) as rt:
        [result] = [response.response for event in run_turn(rt, "hi") for response in event.function_responses()]
        assert result == {"user": "ada", "tier": "VIP"}
        [below] = rt.tree().children
        assert (below.name, below.description) == ("look_up", "Looks up.")


def test_a_graph_that_takes_a_text_takes_it_as_the_request_of_its_tool(local: Deploy) -> None:
    def shout(node_input: str) -> str:
        return node_input.upper()

    tool = NodeTool(Workflow(name="shouter", input_schema=str, edges=[(START, shout)]))
    with local(programs.agent("shop", ("shouter", {"request": "hello"}), "show:last", tools=[tool])) as rt:
        [result] = [response.response for event in run_turn(rt, "hi") for response in event.function_responses()]
        assert result == {"result": "HELLO"}


@pytest.mark.parametrize("is_inner", [False, True])
def test_a_node_as_a_tool_is_refused_by_name_without_islands(is_inner: bool) -> None:
    holder = agent([programs.OwnWorkflow(name="own", input_schema=Customer, edges=[(START, find)])])
    root = programs.agent("root", tools=[AgentTool(holder)]) if is_inner else holder
    with pytest.raises(DefinitionError, match=r"agent 'shop': the node 'own' \(.*\) among its tools.*islands=True"):
        from_adk(root)
    assert len(from_adk(root, islands=True).notes) == 1


def test_a_toolset_that_gives_a_node_fails_the_turn(local: Deploy) -> None:
    with local(agent([Nodes()])) as rt, pytest.raises(DefinitionError, match="gives the node 'lookup'"):
        rt.run(user_id="u", session_id="s", message="hi").result()


def test_a_runtime_takes_islands_of_adk_only(local: Deploy) -> None:
    with pytest.raises(
        DefinitionError, match=r"OwnWorkflow is a graph that runs in a way of its own, .* Runtime\(…, islands=True\)"
    ):
        local(own_greeting)
    with pytest.raises(DefinitionError, match="islands goes with agents of google-adk"):
        local(from_adk(agent([])).root_agent, islands=True)
    assert isinstance(local(own_greeting, islands=True), Runtime)
