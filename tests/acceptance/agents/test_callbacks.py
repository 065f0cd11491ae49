"""Callbacks of LLM agents: what they may replace, and where the state that they write goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import (
    BasePlanner,
    CallbackContext,
    Content,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    Part,
    PlanReActPlanner,
    Plugin,
    RunConfig,
)
from actors.errors import AgentFailedError
from actors.testing import ScriptedModel
from tests.support.agents.conversation_callbacks import (
    add_rule,
    apologize,
    excuse,
    from_cache,
    greet,
    hide_status,
    note_run,
    refuse,
    shout,
    sign,
)
from tests.support.agents.conversation_tools import fail, look_up
from tests.support.runtimes import Deploy, author_texts, run_turn, stored


def looks_up(order: str) -> dict[str, object]:
    return {"call": "look_up", "args": {"order": order}}


def test_content_before_an_agent_takes_the_place_of_its_run(deploy: Deploy) -> None:
    root = LlmAgent(
        name="root",
        model=ScriptedModel([]),
        before_agent_callback=[note_run, greet, refuse],
        after_agent_callback=sign,
        output_key="said",
    )
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "before you ask")]
        assert stored(rt)[-1].actions.state_delta == {"runs": 1, "greeted": "root", "said": "before you ask"}


def test_content_after_an_agent_is_one_more_event_but_not_when_it_hands_over(deploy: Deploy) -> None:
    model = ScriptedModel([{"transfer": "sub"}, "here", {"transfer": "root"}, "back"])
    sub = LlmAgent(name="sub", model=model, after_agent_callback=[note_run, sign])
    with deploy(LlmAgent(name="root", model=model, after_agent_callback=sign, sub_agents=[sub])) as rt:
        assert author_texts(run_turn(rt, "hi"))[2:] == [("sub", "here"), ("sub", "signed, sub")]
        assert stored(rt)[-1].actions.state_delta == {"runs": 1}
        assert author_texts(run_turn(rt, "hi"))[2:] == [("root", "back"), ("root", "signed, root")]


def test_callbacks_around_the_model_change_what_it_is_asked_and_what_it_said(deploy: Deploy) -> None:
    model = ScriptedModel(["hello", ValueError("line down")])
    root = LlmAgent(
        name="root",
        model=model,
        before_model_callback=[add_rule],
        after_model_callback=shout,
        on_model_error_callback=apologize,
        output_key="said",
    )
    with deploy(root) as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "HELLO")]
        assert model.requests[0].system_instruction.endswith("\n\nBe brief.")
        assert stored(rt)[-1].actions.state_delta == {"heard": "hello", "said": "HELLO"}
        assert author_texts(run_turn(rt, "hi")) == [("root", "SORRY: LINE DOWN")]


def test_callbacks_around_a_tool_replace_the_call_its_result_and_its_error(deploy: Deploy) -> None:
    calls = [looks_up("1"), looks_up("2"), looks_up("3"), {"call": "fail"}, {"call": "look_up"}, {"call": "ghost"}]
    model = ScriptedModel([{"parts": calls}, "ok"])
    root = LlmAgent(
        name="root",
        model=model,
        tools=[look_up, fail],
        before_tool_callback=from_cache,
        after_tool_callback=hide_status,
        on_tool_error_callback=excuse,
    )
    with deploy(root) as rt:
        answered = run_turn(rt, "hi")[1]
        cached, hidden, plain, failed, wrong, unknown = (answer.response for answer in answered.function_responses())
        assert cached == {"status": "cached"}
        assert hidden == {"status": "hidden"}
        assert plain == {"order": "3", "status": "late"}
        assert failed == {"excuse": "fail: kaput"}
        assert "order" in wrong["excuse"]
        assert "look_up" in unknown["excuse"]
        assert answered.actions.state_delta == {"seen": 2}


AROUND = {
    "before_agent": lambda model: LlmAgent(name="root", model=model, before_agent_callback=refuse),
    "before_model": lambda model: LlmAgent(name="root", model=model, before_model_callback=refuse),
    "after_model": lambda model: LlmAgent(name="root", model=model, after_model_callback=refuse),
    "before_tool": lambda model: LlmAgent(name="root", model=model, tools=[look_up], before_tool_callback=refuse),
    "after_tool": lambda model: LlmAgent(name="root", model=model, tools=[look_up], after_tool_callback=refuse),
}


def check_failure(deploy: Deploy, callback: str) -> None:
    with deploy(AROUND[callback](ScriptedModel([looks_up("1")]))) as rt:
        with pytest.raises(AgentFailedError, match=r"'root'.*PermissionError.*not today"):
            run_turn(rt, "hi")
        assert (stored(rt)[-1].author, stored(rt)[-1].error_code) == ("root", "PermissionError")


def test_a_callback_that_fails_is_the_failure_of_its_agent(deploy: Deploy) -> None:
    check_failure(deploy, "before_tool")


@pytest.mark.parametrize("callback", AROUND)
def test_whichever_callback_fails_its_agent_fails_with_that(callback: str, tmp_path: Path) -> None:
    check_failure(Deploy("local", tmp_path), callback)


class Guard:
    """Hides a word, and counts the pieces that it was shown in the state."""

    def __call__(self, context: CallbackContext, response: LlmResponse) -> LlmResponse | None:
        """Hide it in a piece, or in the whole."""
        if response.partial:
            context.state["pieces"] = int(context.state.get("pieces", 0)) + 1
        text = response.content.text if response.content is not None else ""
        if "secret" not in text:
            return None
        return LlmResponse(content=Content(role="model", parts=[Part(text=text.replace("secret", "******"))]))


SECRET = {"stream": ["the ", "secret", " is out"]}


@pytest.mark.parametrize("planner", [None, PlanReActPlanner()])
def test_what_a_guard_hides_reaches_no_reader_in_pieces_either(deploy: Deploy, planner: BasePlanner | None) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([SECRET]), planner=planner, after_model_callback=Guard())
    with deploy(root) as rt:
        events = run_turn(rt, "hi", run_config=RunConfig(streaming="sse"))
        assert [(event.partial, event.text) for event in events] == [
            (True, "the "),
            (True, "******"),
            (True, " is out"),
            (None, "the ****** is out"),
        ]
        assert events[-1].actions.state_delta == {"pieces": 3}


class GuardPlugin(Plugin):
    """The same for all agents."""

    def after_model_callback(self, context: CallbackContext, response: LlmResponse) -> LlmResponse | None:
        """Hide it."""
        return Guard()(context, response)


def test_so_it_is_with_a_guard_that_is_a_plugin(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel([SECRET])), plugins=[GuardPlugin("guard")]) as rt:
        events = run_turn(rt, "hi", run_config=RunConfig(streaming="sse"))
        assert "".join(event.text for event in events if event.partial) == "the ****** is out"


def test_a_guard_that_fails_at_a_piece_fails_its_agent_and_is_no_error_of_the_model(local: Deploy) -> None:
    errors: list[Exception] = []

    def note(callback_context: CallbackContext, llm_request: LlmRequest, error: Exception) -> None:
        errors.append(error)

    model = ScriptedModel([{"stream": ["a", "b"]}])
    root = LlmAgent(name="root", model=model, after_model_callback=refuse, on_model_error_callback=note)
    with local(root) as rt, pytest.raises(AgentFailedError, match=r"'root'.*PermissionError.*not today"):
        run_turn(rt, "hi", run_config=RunConfig(streaming="sse"))
    assert errors == []
