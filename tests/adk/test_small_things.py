"""What programs rarely look at is there as well: fields of responses, the stored session, plugins that are left out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools import AgentTool
from google.adk.workflow import START
from google.genai import types
from pydantic import BaseModel

from actors import RunConfig
from actors.errors import DefinitionError, OutputSchemaError
from runtime.adk import from_adk
from runtime.integrations.adk.contents import adk_event
from tests.adk import programs
from tests.adk.notes import noted, noted_lines
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


class Sure(programs.Scripted):
    """Says how sure it is."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            yield response.model_copy(update={"avg_logprobs": -0.25, "model_version": "sure-001"})


def test_responses_keep_the_models_version_and_how_sure_it_was(deploy: Deploy) -> None:
    def look(callback_context: Any, llm_response: Any) -> None:
        callback_context.state["seen"] = [llm_response.model_version, llm_response.avg_logprobs]

    with deploy(LlmAgent(name="root", model=Sure(steps=["hello"]), after_model_callback=look)) as rt:
        event = adk_event(run_turn(rt, "hi")[-1])
        assert (event.model_version, event.avg_logprobs, event.custom_metadata) == ("sure-001", -0.25, None)
        assert stored_state(rt) == {"seen": ["sure-001", -0.25]}


class Naming(BasePlugin):  # type: ignore[misc]
    """Notes the agents of which it hears."""

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        noted(f"agent {agent.name}")

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        noted(f"model {callback_context.agent_name}")

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        noted(f"tool {tool.name}")

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        noted(f"event {event.author}")


def test_plugins_hear_nothing_of_a_tools_agent_without_include_plugins(deploy: Deploy) -> None:
    deepest = programs.agent("deepest", "deep")
    hidden = programs.agent("hidden", ("deepest", {"request": "go"}), "seen by none", tools=[AgentTool(deepest)])
    shown = programs.agent("shown", "seen by all")
    steps = [("hidden", {"request": "go"}), ("shown", {"request": "go"}), "done"]
    tools = [AgentTool(hidden, include_plugins=False), AgentTool(shown)]
    app = App(name="hiding", root_agent=programs.agent("root", *steps, tools=tools), plugins=[Naming(name="naming")])
    with deploy(app) as rt:
        events = run_turn(rt, "hi")
        assert author_texts(events)[-1] == ("root", "done")
        assert "hidden" in {event.author for event in stored(rt)}
    heard = {line.partition(" ")[2] for line in noted_lines() if not line.startswith("tool")}
    assert heard == {"root", "shown"}
    assert [line for line in noted_lines() if line.startswith("tool")] == ["tool hidden", "tool shown"]


def test_one_agent_is_not_a_tool_with_and_without_plugins() -> None:
    helper = programs.agent("helper")
    root = programs.agent("root", tools=[AgentTool(helper), AgentTool(helper, include_plugins=False)])
    with pytest.raises(DefinitionError, match="agent 'helper': a tool with and without include_plugins"):
        from_adk(root)


class Sum(BaseModel):
    """What to add."""

    a: int
    b: int


class Total(BaseModel):
    """The total."""

    total: int


def test_a_sequence_as_a_tool_takes_what_its_first_agent_takes_and_gives_what_its_last_gives(deploy: Deploy) -> None:
    first = programs.agent("first", "show:last", input_schema=Sum)
    last = programs.agent("last", '{"total": 3}', output_schema=Total)
    inner = SequentialAgent(name="inner", sub_agents=[first])
    adding = SequentialAgent(name="adding", description="Adds.", sub_agents=[inner, last])
    root = programs.agent("root", ("adding", {"a": 1, "b": 2}), "show:last", tools=[AgentTool(adding)])
    with deploy(root) as rt:
        events = run_turn(rt, "hi")
        assert author_texts(events)[-1] == ("root", "{'total': 3}")
        assert ("first", '{"a":1,"b":2}') in author_texts(stored(rt))


def test_the_stored_session_has_no_writes_of_the_callback_that_asks_for_it(deploy: Deploy) -> None:
    async def look(callback_context: Any) -> None:
        context = callback_context._invocation_context
        callback_context.state["written"] = 1
        service, where = context.session_service, {"app_name": "test", "user_id": "ada", "session_id": context.session.id}
        stored = await service.get_session(**where)
        last = await service.get_session(**where, config=GetSessionConfig(num_recent_events=1))
        stored.state["lost"] = 1
        callback_context.state["seen"] = [sorted(stored.state), len(stored.events), len(last.events), last.events[0].author]

    with deploy(programs.agent("root", "hello", before_agent_callback=look)) as rt:
        run_turn(rt, "hi", state_delta={"given": 1})
        run_turn(rt, "again")
        # Of the first turn: the message, what the callback wrote, the answer; then the second message.
        assert stored_state(rt) == {"given": 1, "written": 1, "seen": [["given", "lost", "seen", "written"], 4, 1, "user"]}


def test_the_first_turn_sees_only_what_came_with_it(deploy: Deploy) -> None:
    async def look(callback_context: Any) -> None:
        context = callback_context._invocation_context
        callback_context.state["written"] = 1
        stored = await context.session_service.get_session(app_name="test", user_id="ada", session_id="s1")
        callback_context.state["seen"] = sorted(stored.state)

    with deploy(programs.agent("root", "hello", before_agent_callback=look)) as rt:
        run_turn(rt, "hi", state_delta={"given": 1})
        assert stored_state(rt) == {"given": 1, "written": 1, "seen": ["given"]}


def test_a_node_may_give_none(deploy: Deploy) -> None:
    def choose(node_input: Any) -> Event:
        return Event(output=None, route="yes")

    def accept(node_input: Any) -> Event:
        return Event(message=f"accepted {node_input}")

    with deploy(programs.OwnWorkflow(name="graph", edges=[(START, choose), (choose, {"yes": accept})]), islands=True) as rt:
        events = [adk_event(event) for event in run_turn(rt, "hi")]
    assert ["output" in event.model_fields_set for event in events if event.actions.route == "yes"] == [True]
    assert events[-1].content is not None
    assert events[-1].content.parts[0].text == "accepted None"


def test_on_tool_error_hears_of_an_unknown_tool_as_in_adk(deploy: Deploy) -> None:
    def mend(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
        return {"error": type(error).__name__, "tool": tool.name}

    root = programs.agent("root", ("no_such_tool", {}), "show:last", on_tool_error_callback=mend)
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("root", "{'error': 'ValueError', 'tool': 'no_such_tool'}")


@pytest.mark.parametrize("what", ["custom_metadata of an artifact", "get_artifact_version without a version"])
def test_what_artifacts_do_not_have_is_refused_by_name(what: str, local: Deploy) -> None:
    async def save(callback_context: Any) -> None:
        part = types.Part(text="a")
        if what.startswith("get_artifact_version"):
            await callback_context.get_artifact_version("note.txt")
        else:
            await callback_context.save_artifact("note.txt", part, custom_metadata={"a": 1})

    with local(programs.agent("root", before_agent_callback=save)) as rt:
        turn = rt.run(user_id="u", session_id="s", message="hi")
        with pytest.raises(DefinitionError, match=f"{what} of google-adk is not carried over"):
            turn.result()


class Silent(programs.Scripted):
    """Ends without a word."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[]), finish_reason=types.FinishReason.STOP)


def test_a_model_that_says_nothing_leaves_an_event_that_says_so(local: Deploy) -> None:
    with local(
        SequentialAgent(name="root", sub_agents=[LlmAgent(name="mute", model=Silent()), programs.agent("acts", "done")])
    ) as rt:
        events = run_turn(rt, "hi")
        assert [event.error_code for event in events if event.author == "mute"] == ["MODEL_RETURNED_NO_CONTENT"]
        assert author_texts(events)[-1] == ("acts", "done")


def test_partial_events_have_the_id_of_the_whole_one(local: Deploy) -> None:
    with local(programs.agent("root", "hello there")) as rt:
        events = list(rt.run(user_id="ada", session_id="s1", message="hi", run_config=RunConfig(streaming="sse")))
        assert [event.partial for event in events] == [True, True, None]
        assert len({event.id for event in events}) == 1


class Order(BaseModel):
    """An order."""

    number: int


@pytest.mark.parametrize("output_key", [None, "order"])
def test_an_answer_that_does_not_fit_is_an_answer_where_it_is_not_kept(output_key: str | None, deploy: Deploy) -> None:
    root = programs.agent("root", "no number", output_schema=Order, output_key=output_key)
    with deploy(root) as rt:
        if output_key is None:
            assert author_texts(run_turn(rt, "hi"))[-1] == ("root", "no number")
        else:
            with pytest.raises(OutputSchemaError):
                run_turn(rt, "hi")


def test_a_tool_of_the_program_may_transfer(deploy: Deploy) -> None:
    async def transfer_to_agent(agent_name: str, tool_context: Any) -> None:
        """Hand over."""
        tool_context.state["handed"] = agent_name
        tool_context.actions.transfer_to_agent = agent_name

    below = programs.agent("below", "hello")
    root = programs.agent("root", ("transfer_to_agent", {"agent_name": "below"}), tools=[transfer_to_agent], sub_agents=[below])
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("below", "hello")
        assert stored_state(rt) == {"handed": "below"}


@pytest.mark.parametrize(("labels", "shown"), [({}, {}), ({"team": "a", "adk_agent_name": "x"}, {"team": "a"})])
def test_requests_of_models_that_adk_calls_are_labelled_by_agents(
    labels: dict[str, str], shown: dict[str, str], deploy: Deploy
) -> None:
    config = types.GenerateContentConfig(labels=labels or None)
    below = LlmAgent(name="below", generate_content_config=config)
    root = LlmAgent(
        name="root", model=Labelled(steps=[("transfer_to_agent", {"agent_name": "below"}), "hello"]), sub_agents=[below]
    )
    with deploy(root) as rt:
        events = run_turn(rt, "hi")
    assert [event.custom_metadata for event in events if event.author == "root" and event.custom_metadata] == [
        {"adk_agent_name": "root"}
    ]
    assert events[-1].custom_metadata == {"adk_agent_name": labels.get("adk_agent_name", "below"), **shown}


class Labelled(programs.Scripted):
    """Tells the labels of its requests."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in super().generate_content_async(llm_request, stream):
            yield response.model_copy(update={"custom_metadata": dict(llm_request.config.labels)})
