"""The options of a turn reach callbacks and tools as ADK's RunConfig, and one of ADK's is taken as the options of a turn."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.run_config import RunConfig as AdkRunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.workflow import START
from google.genai import types

from actors import RunConfig
from actors.errors import LlmCallsLimitExceededError, RequestError
from tests.adk import programs
from tests.support.runtimes import Deploy, author_texts, run_turn, stored_state


def seen(config: Any) -> list[Any]:
    return [str(config.streaming_mode), config.max_llm_calls, copy.deepcopy(config.custom_metadata)]


def keep(name: str, context: Any) -> None:
    context.state[name] = seen(context.run_config)


def tell(tool_context: Any) -> str:
    """Tell the tenant, and try to change the options."""
    keep("tool", tool_context)
    tenant: str = tool_context.run_config.custom_metadata["tenant"]
    tool_context.run_config.custom_metadata["tenant"] = "another"
    return tenant


class Looking(BasePlugin):  # type: ignore[misc]
    """Looks at the options where a turn begins."""

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        invocation_context.session.state["plugin"] = seen(invocation_context.run_config)


class Coded(BaseAgent):  # type: ignore[misc]
    """Tells what its own code sees."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text=str(seen(ctx.run_config)))])
        yield Event(author=self.name, content=content)


GIVEN = ["StreamingMode.SSE", 7, {"tenant": "acme", "tags": ["a"]}]
OWN = RunConfig(streaming="sse", max_llm_calls=7, custom_metadata={"tenant": "acme", "tags": ["a"]})
ADKS = AdkRunConfig(streaming_mode=StreamingMode.SSE, max_llm_calls=7, custom_metadata={"tenant": "acme", "tags": ["a"]})


@pytest.mark.parametrize("config", [OWN, ADKS], ids=["own", "adk"])
def test_callbacks_tools_plugins_and_code_see_the_options_of_the_turn(config: Any, deploy: Deploy) -> None:
    fields = {
        f"{when}_{what}_callback": [lambda name=f"{when}_{what}", **given: keep(name, next(filter(has_options, given.values())))]
        for when in ("before", "after")
        for what in ("agent", "model", "tool")
    }
    root = programs.agent(
        "root",
        ("tell", {}),
        "show:last",
        tools=[tell],
        instruction=lambda context: str(seen(context.run_config)),
        sub_agents=[Coded(name="coded")],
        **fields,
    )
    with deploy(App(name="told", root_agent=root, plugins=[Looking(name="looking")])) as rt:
        events = run_turn(rt, "hi", run_config=config)
        assert [text for _, text in author_texts(events) if text] == ["{'result': 'acme'}"]
        points = [f"{when}_{what}" for when in ("before", "after") for what in ("agent", "model", "tool")]
        assert stored_state(rt) == dict.fromkeys([*points, "tool", "plugin"], GIVEN)
    with deploy(Coded(name="coded")) as rt:
        assert author_texts(run_turn(rt, "hi", session_id="s2", run_config=config))[-1] == ("coded", str(GIVEN))


def test_models_are_shown_the_context_of_a_turn_before_its_message(deploy: Deploy) -> None:
    config = AdkRunConfig(model_input_context=[types.UserContent("ctx")])
    root = programs.agent("root", ("shown_context", {}), "show:texts", tools=[shown_context])
    with deploy(root) as rt:
        events = run_turn(rt, "one", run_config=config)
        assert [response.response for event in events for response in event.function_responses()] == [{"result": "ctx"}]
        assert author_texts(events)[-1] == ("root", "ctx | one")
        assert author_texts(run_turn(rt, "two"))[-1] == ("root", "one | ctx | one | two")


def shown_context(tool_context: Any) -> str:
    """Tell the context."""
    given = tool_context.run_config.model_input_context
    return given[0].parts[0].text if given else "none"


def test_an_island_shows_its_models_the_context_of_a_turn(deploy: Deploy) -> None:
    asked = LlmAgent(name="asked", mode="single_turn", model=programs.Scripted(steps=["show:texts"]))
    config = AdkRunConfig(model_input_context=[types.UserContent("ctx")])
    with deploy(programs.OwnWorkflow(name="graph", edges=[(START, asked)]), islands=True) as rt:
        assert author_texts(run_turn(rt, "one", run_config=config))[-1][1] == "ctx | one"


def has_options(value: Any) -> bool:
    return hasattr(value, "run_config")


def test_an_island_has_the_options_and_keeps_to_the_limit_of_model_calls(deploy: Deploy) -> None:
    def look(node_input: Any, ctx: Any) -> Event:
        return Event(message=str(seen(ctx.run_config)))

    def again() -> str:
        """Once more."""
        return "more"

    with deploy(programs.OwnWorkflow(name="graph", edges=[(START, look)]), islands=True) as rt:
        assert author_texts(run_turn(rt, "hi", run_config=OWN))[-1] == ("graph", str(GIVEN))
    caller = LlmAgent(name="caller", mode="single_turn", model=programs.Scripted(steps=[("again", {})]), tools=[again])
    with deploy(programs.OwnWorkflow(name="calls", edges=[(START, caller)]), islands=True, app_name="limited") as rt:
        turn = rt.run(user_id="u", session_id="s", message="hi", run_config=RunConfig(max_llm_calls=3))
        with pytest.raises(Exception, match=r"Max number of llm calls limit of `?3"):
            turn.result()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"labels": {"a": "b"}}, r"RunConfig\.labels of google-adk is not carried over: .*generate_content_config"),
        ({"streaming_mode": StreamingMode.BIDI}, r"RunConfig\.streaming_mode 'bidi' of google-adk is not carried over"),
        ({"save_live_blob": True}, r"RunConfig\.save_live_blob of google-adk is not carried over: leave it out"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(given: Any, named: str, local: Deploy) -> None:
    with local(programs.agent("root")) as rt, pytest.raises(RequestError, match=named):
        rt.run(user_id="u", session_id="s", message="hi", run_config=AdkRunConfig(**given))


def test_defaults_that_are_given_are_no_wishes_and_limits_hold(local: Deploy) -> None:
    with local(programs.agent("root", ("tell", {}), "hello", tools=[tell])) as rt:
        config = AdkRunConfig(support_cfc=False, labels=None, custom_metadata={"tenant": "acme"})
        assert author_texts(run_turn(rt, "hi", run_config=config))[-1] == ("root", "hello")
        limited = config.model_copy(update={"max_llm_calls": 1})
        with pytest.raises(LlmCallsLimitExceededError):
            rt.run(user_id="u", session_id="s", message="hi", run_config=limited).result()
