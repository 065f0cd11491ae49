"""A context of a callback is made when user code looks at it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk has an environment of its own: make test-adk", exc_type=ImportError)

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.tools.tool_context import ToolContext

from actors.testing import ScriptedModel
from runtime.adk import contexts, from_adk
from runtime.adk.contexts import AdkContext, UnreadContext
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
