"""A context of a callback is made when user code looks at it."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.debug_logging_plugin import DebugLoggingPlugin
from google.adk.tools.tool_context import ToolContext

from actors.testing import ScriptedModel
from runtime.adk import from_adk
from runtime.integrations.adk import contexts
from runtime.integrations.adk.contexts import AdkContext, UnreadContext
from runtime.integrations.adk.state import may_read_events
from tests.adk import told_events
from tests.adk.programs import Scripted
from tests.support.runtimes import Deploy, run_turn

seen: list[Any] = []


def ignore(callback_context: Any, llm_request: Any) -> None:
    seen.append(callback_context)


def set_before_reading(tool: Any, args: Any, tool_context: Any) -> None:
    tool_context.function_call_id = "another"
    seen.append((tool_context.function_call_id, tool_context.state["kept"], type(tool_context)))


def write(callback_context: Any) -> None:
    twin = copy.copy(callback_context)
    assert type(callback_context) is type(twin) is UnreadContext
    assert isinstance(callback_context, CallbackContext)
    assert isinstance(callback_context, ToolContext)
    callback_context.state["kept"] = 1
    assert callback_context.agent_name == twin.agent_name == "root"
    assert type(callback_context) is AdkContext


def look() -> str:
    """Look."""
    return "seen"


def test_a_context_is_made_when_it_is_looked_at(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    seen.clear()
    root = from_adk(
        LlmAgent(
            name="root",
            model="gemini-2.5-flash",
            tools=[look],
            before_agent_callback=write,
            before_model_callback=ignore,
            before_tool_callback=set_before_reading,
        )
    ).root_agent
    made: list[Any] = []
    make = contexts.invocation_context

    def count(*given: Any) -> Any:
        made.append(given)
        return make(*given)

    monkeypatch.setattr(contexts, "invocation_context", count)
    model = ScriptedModel([{"call": "look", "args": {}}, "done"])
    with local(root.model_copy(update={"model": model})) as rt:
        run_turn(rt, "go")
        session = rt.sessions.get("ada", "s1")
    assert session is not None
    assert session.state == {"kept": 1}
    before, (call_id, kept, kind), after = seen
    assert (type(before), type(after)) == (UnreadContext, UnreadContext)
    assert (call_id, kept, kind) == ("another", 1, AdkContext)
    # Of before_agent, its copy, before_tool, and the tool, whose FunctionTool asks for consent: not of before_model.
    assert len(made) == 4


def count(context: Any) -> str:
    return str(len(context.session.events))


def sync_tool(tool_context: Any) -> str:
    """Count the events."""
    return count(tool_context)


async def async_tool(tool_context: Any) -> str:
    """Count the events."""
    return count(tool_context)


async def async_callback(callback_context: Any) -> None:
    callback_context.state["before"] = count(callback_context)


def sync_instruction(context: Any) -> str:
    return f"There are {len(context.session.events)} events."


async def async_instruction(context: Any) -> str:
    return sync_instruction(context)


class Counter(BasePlugin):  # type: ignore[misc]
    def _count(self, context: Any) -> int:
        return len(context.session.events)

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        seen.append(("before_run", self._count(invocation_context)))

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        seen.append(("after_run", self._count(invocation_context)))


@pytest.mark.parametrize("instruction", [sync_instruction, async_instruction])
def test_tools_callbacks_instructions_and_plugins_look_at_the_events(local: Deploy, instruction: Any, tmp_path: Path) -> None:
    seen.clear()
    model = Scripted(model="gemini-2.5-flash", steps=[("sync_tool", {}), ("async_tool", {}), "show:instruction"])
    root = LlmAgent(
        name="root", model=model, instruction=instruction, tools=[sync_tool, async_tool], before_agent_callback=async_callback
    )
    plugins = [Counter("counter"), DebugLoggingPlugin(output_path=str(tmp_path / "debug.yaml"))]
    with local(App(name="app", root_agent=root, plugins=plugins)) as rt:
        events = run_turn(rt, "go")
        session = rt.sessions.get("ada", "s1")
    answers = [response.response for event in events for response in event.function_responses()]
    assert session is not None
    # The message, the callback's state and a call; then the response, and a call.
    assert session.state["before"] == "1"
    assert answers == [{"result": "3"}, {"result": "5"}]
    assert "There are 6 events." in events[-1].text
    assert seen == [("before_run", 1), ("after_run", 7)]
    assert "sync_tool" in (tmp_path / "debug.yaml").read_text()


def elsewhere(module_function: Any) -> Any:
    async def looks(callback_context: Any) -> None:
        module_function(callback_context)

    return looks


async def of_another_module(callback_context: Any) -> str:
    return told_events.newest(callback_context)


async def of_an_object(callback_context: Any) -> str:
    return READER.newest(callback_context)


READER = told_events.Reader()


def test_events_are_read_before_code_that_names_them_and_before_no_other() -> None:
    assert may_read_events(async_tool)
    assert may_read_events(Counter("counter").after_run_callback)
    assert may_read_events(elsewhere(count))
    assert may_read_events(of_another_module)
    assert may_read_events(of_an_object)
    assert may_read_events(partial(async_tool, tool_context=None))
    assert not may_read_events(elsewhere(print))
    assert not may_read_events(Counter("counter").on_event_callback)
