"""Callbacks of LLM agents, and plugins: what they may replace, and where the state that they write goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import (
    BasePlanner,
    CallbackContext,
    Content,
    FunctionResponse,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    Part,
    PlanReActPlanner,
    Plugin,
    RunConfig,
    SequentialAgent,
)
from actors.errors import AgentFailedError, PluginFailedError
from actors.testing import ScriptedModel
from tests.support.agents.conversation_agents import StateAdder
from tests.support.agents.conversation_callbacks import (
    AgentReplacer,
    ErrorAnswerer,
    FailingHooks,
    FailureTeller,
    HookRecorder,
    SecretFilter,
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
from tests.support.runtimes import Deploy, author_texts, run_turn, stored, stored_state


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


def test_its_hooks_are_called_for_every_agent_and_what_they_write_is_kept(deploy: Deploy) -> None:
    calls = {"call": "look_up", "args": {"order": "1"}}
    asker = LlmAgent(name="asker", model=ScriptedModel([calls, "late"]), tools=[look_up])
    root = SequentialAgent(name="root", sub_agents=[asker, LoopAgent(name="loop", max_iterations=1), StateAdder(name="sums")])
    with deploy(root, plugins=[HookRecorder(), HookRecorder("again")]) as rt:
        assert run_turn(rt, "go", state_delta={"amount": 2})[-1].content is None
        expected = [
            *("message root", "begin root", "before_agent root", "before_agent asker"),
            *("before_model asker", "after_model asker", "before_tool asker", "after_tool asker"),
            *("before_model asker", "after_model asker", "after_agent asker"),
            *("before_agent loop", "after_agent loop", "before_agent sums", "after_agent sums", "after_agent root", "end root"),
        ]
        assert stored_state(rt)["seen_by_HookRecorder"] == stored_state(rt)["seen_by_again"] == expected
        assert list(stored(rt)[0].actions.state_delta) == ["amount", "seen_by_HookRecorder", "seen_by_again"]


OF_AGENTS = ("before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool")
WRITING = ("on_user_message", "before_run", "after_run", "on_event", *OF_AGENTS)
"""Hooks that may write."""


@pytest.mark.parametrize("hook", WRITING)
def test_what_a_hook_has_written_and_saved_is_on_an_event(local: Deploy, hook: str) -> None:
    async def write(self: Plugin, *given: Any) -> None:
        context = next(each for each in given if isinstance(each, CallbackContext))
        context.state["written"] = True
        await context.save_artifact("saved.txt", Part(text="saved"))

    plugin = type("Writes", (Plugin,), {f"{hook}_callback": write})()
    calls = {"call": "look_up", "args": {"order": "1"}}
    with local(LlmAgent(name="root", model=ScriptedModel([calls, "late"]), tools=[look_up]), plugins=[plugin]) as rt:
        run_turn(rt, "go")
        assert stored_state(rt)["written"]
        versions = [event.actions.artifact_delta for event in stored(rt) if event.actions.artifact_delta]
        assert [delta["saved.txt"] for delta in versions] == rt.artifacts.list_versions("ada", "s1", "saved.txt")
        assert versions


def test_it_is_told_of_failures_and_does_not_replace_them(deploy: Deploy, tmp_path: Path) -> None:
    path = tmp_path / "told"
    root = SequentialAgent(
        name="root", sub_agents=[LlmAgent(name="asker", model=ScriptedModel(["fine", ValueError("line down")]))]
    )
    with deploy(root, plugins=[FailureTeller(path)]) as rt:
        run_turn(rt, "first")
        assert not path.exists()
        with pytest.raises(AgentFailedError, match="line down"):
            run_turn(rt, "second")
    assert path.read_text().splitlines() == [
        "agent asker ValueError('line down')",
        "turn second agent 'asker' failed: ValueError: line down",
    ]


@pytest.mark.parametrize("hook", ["on_user_message", "before_run", "after_run"])
def test_it_is_told_when_another_one_fails_the_turn(local: Deploy, tmp_path: Path, hook: str) -> None:
    path = tmp_path / "told"
    plugins = [FailureTeller(path), FailingHooks(hook)]
    with local(LlmAgent(name="root", model=ScriptedModel(["fine"])), plugins=plugins) as rt, pytest.raises(PluginFailedError):
        run_turn(rt, "go")
    [told] = path.read_text().splitlines()
    assert told.startswith("turn go")
    assert "not today" in told


def test_it_runs_before_the_agents_own_callbacks_and_takes_their_place(deploy: Deploy) -> None:
    root = LlmAgent(
        name="root",
        model=ScriptedModel([{"call": "fail"}, ValueError("line down")]),
        tools=[fail],
        on_model_error_callback=refuse,
        on_tool_error_callback=refuse,
    )
    with deploy(root, plugins=[ErrorAnswerer()]) as rt:
        events = run_turn(rt, "hi")
        assert [answer.response for answer in events[1].function_responses()] == [{"mended": "kaput"}]
        assert events[-1].text == "mended: line down"


def test_it_may_change_the_message_the_turn_and_every_event(deploy: Deploy) -> None:
    model = ScriptedModel([{"stream": ["the ", "secret", "!"]}, "fine"])
    with deploy(LlmAgent(name="root", model=model), plugins=[SecretFilter()]) as rt:
        events = run_turn(rt, "a secret?", run_config=RunConfig(streaming="sse"))
        assert "".join(event.text for event in events if event.partial) == "the ******!"
        assert author_texts(stored(rt)) == [("user", "a ******?"), ("root", "the ******!")]
        assert (stored(rt)[-1].id, stored(rt)[-1].actions.state_delta) == (events[-1].id, {"censored": 1})
        assert events[-1].id != "x"
        assert model.requests[0].contents[-1].text == "a ******?"
        assert author_texts(run_turn(rt, "forbidden")) == [("root", "root may not talk about that")]
        assert author_texts(run_turn(rt, "and now?")) == [("root", "fine")]
        assert stored_state(rt) == {"heard": 3, "censored": 1, "refused": "forbidden"}
        assert model.requests[1].contents[-2].text == "root may not talk about that"


def test_a_turn_that_goes_on_after_a_pause_is_not_begun_again(deploy: Deploy) -> None:
    def ask() -> None:
        return None

    root = LlmAgent(name="root", model=ScriptedModel([{"call": "ask"}, "done"]), tools=[LongRunningFunctionTool(ask)])
    with deploy(root, plugins=[HookRecorder()]) as rt:
        call = next(call for event in run_turn(rt, "go") for call in event.function_calls())
        answer = Part(function_response=FunctionResponse(id=call.id, name="ask", response={"ok": True}))
        assert author_texts(run_turn(rt, Content(parts=[answer])))[-3] == ("root", "done")
        seen = stored_state(rt)["seen_by_HookRecorder"]
        assert seen == [
            *("message root", "begin root", "before_agent root", "before_model root", "after_model root"),
            *("before_tool root", "after_tool root", "message root"),
            *("before_model root", "after_model root", "after_agent root", "end root"),
        ]


@pytest.mark.parametrize("hook", ["on_user_message", "before_run", "after_run", "on_event"])
def test_a_hook_that_fails_fails_the_turn_and_not_the_next(hook: str, tmp_path: Path) -> None:
    deploy = Deploy("local", tmp_path)
    with deploy(LlmAgent(name="root", model=ScriptedModel(["one"])), plugins=[FailingHooks(hook)]) as rt:
        error = AgentFailedError if hook == "on_event" else PluginFailedError
        with pytest.raises(error, match=r"PermissionError.*not today"):
            run_turn(rt, "hi")
        session = rt.sessions.get("ada", "s1")
        ends = [event.error_code for event in session.events] if session is not None else None
        assert (
            ends
            == {
                "on_user_message": None,
                "before_run": [None, "PluginFailedError"],
                "after_run": [None, None, "PluginFailedError"],
                "on_event": [None, "PermissionError"],
            }[hook]
        )
    with deploy(LlmAgent(name="root", model=ScriptedModel(["two"]))) as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "two")]


def test_what_a_callback_wrote_is_kept_when_the_model_says_nothing(deploy: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel([None, None]), after_model_callback=shout)
    with deploy(root) as rt:
        assert [(event.content, event.actions.state_delta) for event in run_turn(rt, "hi")] == [(None, {"heard": None})]
        assert stored_state(rt) == {"heard": None}


def test_a_plugin_that_gives_content_before_an_agent_spares_it_the_run(deploy: Deploy) -> None:
    with deploy(LlmAgent(name="root", model=ScriptedModel([]), before_agent_callback=greet), plugins=[AgentReplacer()]) as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "nobody is in")]
        assert stored_state(rt) == {}
