"""What models are shown for one turn only: `model_input_context` of its options (semantics.md 5.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.genai import types

from actors import AgentTool, Content, LlmAgent, LlmRequest, LlmResponse, LongRunningFunctionTool, RunConfig
from actors.messages.content import FunctionCall, FunctionResponse, Part
from runtime import Runtime
from tests.support.runtimes import Deploy, run_turn, stored


class Telling:
    """Calls a tool when it is asked to, and else tells what it is shown: a result as `=`, a call as `?`."""

    def __init__(self, calls: str = "") -> None:
        self.model = "telling"
        self.calls = calls

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        parts = [part for content in request.contents for part in content.parts]
        if self.calls and not any(part.function_response for part in parts):
            part = Part(function_call=FunctionCall(name=self.calls, args={"request": "ask"}))
        else:
            told = ["=" if each.function_response else "?" if each.function_call else each.text or "" for each in parts]
            part = Part(text=f"<{' '.join(told)}>")
        yield LlmResponse(content=Content(role="model", parts=[part]))


CONTEXT = RunConfig(model_input_context=["ctx"])


def told(rt: Runtime, message: Any, **options: Any) -> str:
    text: str = run_turn(rt, message, **options)[-1].text
    return text


def look(request: str) -> str:
    """Look something up."""
    return request


def test_it_stands_before_the_message_of_its_turn_in_all_its_calls_and_in_no_other_turn(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=Telling("look"), tools=[look])) as rt:
        assert told(rt, "one", run_config=CONTEXT) == "<ctx one ? =>"
        both = [Content.of_text("a", "model"), types.UserContent("b")]
        assert told(rt, "two", run_config=RunConfig(model_input_context=both)) == "<one ? = <ctx one ? => a b two>"
        assert told(rt, "three").endswith(" two <one ? = <ctx one ? => a b two> three>")
        assert [event.text for event in stored(rt) if event.author == "user"] == ["one", "two", "three"]


def test_the_same_words_said_twice_are_two_messages(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=Telling())) as rt:
        assert told(rt, "hi") == "<hi>"
        assert told(rt, "hi", run_config={"model_input_context": ["ctx"]}) == "<hi <hi> ctx hi>"


def test_agents_that_see_only_the_newest_part_have_it_first_and_so_do_agents_that_are_tools(deploy: Deploy) -> None:
    asked = LlmAgent(name="asked", description="Knows.", model=Telling())
    root = LlmAgent(name="root", model=Telling("asked"), tools=[AgentTool(asked)], include_contents="none")
    with deploy(root) as rt:
        told(rt, "one")
        assert told(rt, "two", run_config=CONTEXT) == "<ctx two ? =>"
        assert [event.text for event in stored(rt) if event.author == "asked"] == ["<ask>", "<ctx ask>"]


def wait(request: str) -> None:
    """Wait for somebody."""


@pytest.mark.parametrize("given", [None, RunConfig(model_input_context=["other"])], ids=["kept", "replaced"])
def test_a_turn_that_waits_keeps_it_for_the_next_program(given: RunConfig | None, deploy: Deploy) -> None:
    def tree() -> LlmAgent:
        return LlmAgent(name="root", model=Telling("wait"), tools=[LongRunningFunctionTool(wait)])

    with deploy(tree()) as rt:
        run_turn(rt, "one", run_config=CONTEXT)
    with deploy(tree()) as rt:
        (pending,) = rt.turns.pending("ada", "s1")
        answered = rt.answer(pending, {"result": "now"}, user_id="ada", session_id="s1", run_config=given)
        assert list(answered)[-1].text == f"<{'other' if given else 'ctx'} one ? =>"


def test_it_stands_before_the_first_message_of_a_turn_that_was_answered_with_words_too(local: Deploy) -> None:
    with local(LlmAgent(name="root", model=Telling("wait"), tools=[LongRunningFunctionTool(wait)])) as rt:
        run_turn(rt, "one", run_config=CONTEXT)
        (pending,) = rt.turns.pending("ada", "s1")
        answer = Part(function_response=FunctionResponse(id=pending.call_id, name="wait", response={"result": "now"}))
        assert told(rt, Content(role="user", parts=[answer, Part(text="two")])) == "<ctx one ? = two>"
