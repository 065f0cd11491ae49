"""`request_confirmation` of a tool pauses the turn, and the answer to `adk_request_confirmation` runs the tool again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent, LoopAgent, SequentialAgent
from google.adk.tools import AgentTool, FunctionTool
from google.genai import types

from actors import Paused
from actors.errors import NotCarriedOverError
from runtime.adk import from_adk
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.support.runtimes import Deploy, author_texts, stored_state


def leave(days: int, tool_context: Any) -> dict[str, Any]:
    """Ask for leave."""
    decided = tool_context.tool_confirmation
    if decided is None:
        tool_context.request_confirmation(hint="How many days?", payload={"days": 0})
        return {"status": "pending"}
    if not decided.confirmed:
        return {"status": "refused"}
    tool_context.state["given"] = decided.payload["days"]
    return {"status": f"{decided.payload['days']} of {days} given"}


async def leave_async(days: int, tool_context: Any) -> dict[str, Any]:
    """Ask for leave."""
    return leave(days, tool_context)


def spend(days: int, tool_context: Any) -> str:
    """Spend days."""
    decided = tool_context.tool_confirmation
    return f"{days} spent: {decided.confirmed} {decided.payload}"


def plain(days: int) -> str:
    """Do it."""
    return f"{days} done"


def guard(tool: Any, args: Any, tool_context: Any) -> dict[str, Any] | None:
    """Have the user agree to every call."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint=f"{tool.name}?")
        return {"status": "pending"}
    return None if tool_context.tool_confirmation.confirmed else {"status": "kept from it"}


def asker(name: str, **fields: Any) -> Any:
    return programs.agent("asker", (name, {"days": 5}), "show:last", **fields)


def answered(rt: Runtime, **given: Any) -> Any:
    """Answer the call that waits as clients of ADK do."""
    [call] = rt.pending(user_id="u", session_id="s")
    assert call.is_confirmation
    response = types.FunctionResponse(id=call.call_id, name="adk_request_confirmation", response=given)
    message = types.Content(role="user", parts=[types.Part(function_response=response)])
    return rt.run(user_id="u", session_id="s", message=message).result()


def said(result: Any) -> list[tuple[str, str]]:
    return [(author, text) for author, text in author_texts(list(result.events)) if text]


def paused(rt: Runtime) -> None:
    result = rt.run(user_id="u", session_id="s", message="hi").result()
    assert isinstance(result.outcome, Paused)
    assert "acts" not in {author for author, _ in author_texts(list(result.events))}


@pytest.mark.parametrize("tool", [leave, leave_async])
def test_what_stands_behind_waits_and_the_tool_has_the_payload(deploy: Deploy, tool: Any) -> None:
    root = SequentialAgent(name="root", sub_agents=[asker(tool.__name__, tools=[tool]), programs.agent("acts", "done")])
    with deploy(root) as rt:
        paused(rt)
        result = answered(rt, confirmed=True, payload={"days": 3})
        assert said(result) == [("asker", "{'status': '3 of 5 given'}"), ("acts", "done")]
        assert stored_state(rt, "s", "u")["given"] == 3


def test_a_loop_waits(local: Deploy) -> None:
    loop = LoopAgent(name="root", max_iterations=1, sub_agents=[asker("leave", tools=[leave]), programs.agent("acts", "done")])
    with local(loop) as rt:
        paused(rt)
        assert said(answered(rt, confirmed=False)) == [("asker", "{'status': 'refused'}"), ("acts", "done")]


def test_a_tool_that_needs_consent_has_the_payload(local: Deploy) -> None:
    with local(asker("spend", tools=[FunctionTool(spend, require_confirmation=True)])) as rt:
        paused(rt)
        assert answered(rt, confirmed=True, payload="now").text == "{'result': '5 spent: True now'}"


@pytest.mark.parametrize(("confirmed", "said"), [(True, "{'result': '5 done'}"), (False, "{'status': 'kept from it'}")])
def test_a_callback_may_ask_for_a_tool(deploy: Deploy, confirmed: bool, said: str) -> None:
    with deploy(asker("plain", tools=[plain], before_tool_callback=guard)) as rt:
        paused(rt)
        assert answered(rt, confirmed=confirmed).text == said


class Own(LlmAgent):  # type: ignore[misc]
    """A subclass, which ADK's own Runner runs."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._run_async_impl(ctx):
            yield event


def test_an_island_asks_in_its_own_way(local: Deploy) -> None:
    model = programs.Scripted(model="gemini-2.5-flash", steps=[("leave", {"days": 5}), "done"])
    with local(from_adk(Own(name="asker", model=model, tools=[leave]), islands=True).root_agent) as rt:
        rt.run(user_id="u", session_id="s", message="hi").result()
        [call] = rt.pending(user_id="u", session_id="s")
        assert call.name == "adk_request_confirmation"


def another(days: int, tool_context: Any) -> str:
    """Ask for a call that is not its own."""
    tool_context.function_call_id = "another"
    tool_context.request_confirmation()
    return "asked"


async def hidden(days: int, tool_context: Any) -> str:
    """Run an agent by hand, and go on if that fails."""
    try:
        await tool_context.run_node(programs.agent("other", "hi"))
    except Exception:
        return "anyway"
    return "in"


async def node(days: int, tool_context: Any) -> str:
    """Run an agent by hand."""
    await tool_context.run_node(programs.agent("other", "hi"))
    return "ran"


async def listed(days: int, tool_context: Any) -> str:
    """Save with metadata."""
    await tool_context.save_artifact("a.txt", types.Part(text="a"), custom_metadata={"by": "me"})
    return "saved"


def unexpected(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, Any]:
    """Answers for errors of tools."""
    return {"status": "never mind"}


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        (hidden, "run_node of the agent 'other', .*"),
        (another, "request_confirmation for another call"),
        (node, "run_node of the agent 'other', .*"),
        (listed, "custom_metadata of an artifact"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_carried_over_fails_the_turn(local: Deploy, tool: Any, named: str) -> None:
    child = asker(tool.__name__, tools=[tool], on_tool_error_callback=unexpected)
    with local(SequentialAgent(name="root", sub_agents=[child, programs.agent("acts", "done")])) as rt:
        turn = rt.run(user_id="u", session_id="s", message="hi")
        with pytest.raises(NotCarriedOverError, match=f"{named} of google-adk is not carried over: "):
            turn.result()
        # The next turn of the session works, and shows its model no call without a response.
        with pytest.raises(NotCarriedOverError):
            rt.run(user_id="u", session_id="s", message="again").result()


def test_it_fails_the_turn_also_of_an_agent_that_is_asked_as_a_tool(deploy: Deploy) -> None:
    root = programs.agent("root", ("asker", {"request": "go"}), "show:last", tools=[AgentTool(asker("hidden", tools=[hidden]))])
    with deploy(root) as rt, pytest.raises(NotCarriedOverError, match="run_node of the agent 'other'"):
        rt.run(user_id="u", session_id="s", message="hi").result()


async def versions(days: int, tool_context: Any) -> str:
    """Look at the versions of an artifact."""
    for text in ("a", "b"):
        await tool_context.save_artifact("user:note.txt", types.Part(text=text))
    found = [await tool_context.get_artifact_version("user:note.txt", number) for number in (0, 1, 2)]
    assert found[1].canonical_uri.endswith("/user:note.txt/1")
    return " ".join(f"{each.version}:{each.mime_type}" if each else "none" for each in found)


def test_an_artifacts_version_is_known(deploy: Deploy) -> None:
    with deploy(asker("versions", tools=[versions])) as rt:
        assert rt.run(user_id="u", session_id="s", message="hi").result().text == "{'result': '0:text/plain 1:text/plain none'}"
