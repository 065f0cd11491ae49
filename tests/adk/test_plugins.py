"""Plugins of an App: ADK's callbacks are called at all points, in the processes of agents and of the Runner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
from google.adk.plugins.logging_plugin import LoggingPlugin
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.genai import types

from actors import Event
from actors.errors import AgentFailedError
from runtime.adk import from_adk
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.support.runtimes import Deploy, author_texts, run_turn


def said(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


class Spy(BasePlugin):  # type: ignore[misc]
    """Has every callback, notes each in a file, and intervenes where the message asks for it."""

    def __init__(self, log: str) -> None:
        super().__init__(name="spy")
        self.log = log

    def noted(self, point: str, agent: Any = None) -> None:
        with Path(self.log).open("a") as file:
            file.write(f"{point} {agent.name}\n" if agent else f"{point}\n")

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        self.noted("user_message", invocation_context.agent)
        invocation_context.session.state["seen"] = user_message.parts[0].text
        if user_message.parts[0].text == "hello":
            user_message.parts[0].text = "Rome?"
        return None

    async def before_run_callback(self, *, invocation_context: Any) -> Any:
        self.noted("before_run", invocation_context.agent)
        return said("closed") if invocation_context.user_content.parts[0].text == "stop" else None

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        self.noted("after_run", invocation_context.agent)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        self.noted(f"event {event.author}")
        if event.content and event.content.parts[0].text == "secret":
            return event.model_copy(update={"content": said("censored")})
        return None

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        self.noted("before_agent", agent)
        callback_context.state["agent"] = type(agent).__name__

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        self.noted("after_agent", agent)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        self.noted(f"before_model {sorted(llm_request.tools_dict)}")
        text = llm_request.contents[-1].parts[0].text
        return LlmResponse(content=said("cached")) if text == "cache" else None

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
        self.noted("after_model")
        part = llm_response.content.parts[0]
        if part.text:
            part.text = part.text.replace("Rome", "Roma")

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> Any:
        self.noted(f"model_error {error}")
        return LlmResponse(content=said("sorry"))

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        self.noted(f"before_tool {type(tool).__name__}")
        tool_args["unit"] = "F"

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> Any:
        self.noted("after_tool")
        return {**result, "by": self.name} if isinstance(result, dict) else None

    async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception) -> Any:
        self.noted(f"tool_error {error}")
        return {"result": "mended"}

    async def on_agent_error_callback(self, *, agent: Any, callback_context: Any, error: Exception) -> None:
        self.noted(f"agent_error {agent.name} {type(error).__name__} {error}")

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        self.noted(f"run_error {invocation_context.agent.name} {type(error).__name__} {error}")


def get_weather(city: str, unit: str = "C") -> dict[str, str]:
    """Tell the weather."""
    if city == "Atlantis":
        raise LookupError("it has sunk")
    return {"report": f"{city}: 20 {unit}"}


def app(log: Path, *steps: Any) -> App:
    root = programs.agent("root", *steps, tools=[get_weather])
    return App(name="weather", root_agent=root, plugins=[Spy(str(log))])


@pytest.fixture(params=["local", "ray"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    return request.param  # type: ignore[no-any-return]


def test_every_callback_is_called(engine: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = app(log, ("get_weather", {"city": "Rome"}), "show:last")
    with Deploy(engine, tmp_path)(program) as rt:
        events = run_turn(rt, "hello")
        assert author_texts(events)[-1] == ("root", "{'report': 'Roma: 20 F', 'by': 'spy'}")
        session = rt.sessions.get("ada", "s1")
        assert session is not None
        assert session.state == {"seen": "hello", "agent": "LlmAgent"}
        assert session.events[0].text == "Rome?"
        assert author_texts(run_turn(rt, "stop"))[-1] == ("root", "closed")
    model = ["before_model ['get_weather']", "after_model", "event root"]
    run = ["before_agent root", *model, "before_tool FunctionTool", "after_tool", "event root", *model, "after_agent root"]
    lines = log.read_text().splitlines()
    turn = ["user_message root", "before_run root", *run, "after_run root"]
    # The event of the state that before_agent has set.
    turn.insert(3, "event root")
    assert lines[: len(turn)] == turn
    assert lines[len(turn) :] == ["user_message root", "before_run root", "after_run root"]


def test_callbacks_replace_responses_events_and_errors(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Deploy("local", tmp_path)(app(log, "secret")) as rt:
        assert author_texts(run_turn(rt, "tell"))[-1] == ("root", "censored")
        assert author_texts(run_turn(rt, "cache"))[-1] == ("root", "cached")
    broken = App(name="weather", root_agent=LlmAgent(name="root", model=programs.Broken()), plugins=[Spy(str(log))])
    with Deploy("local", tmp_path)(broken) as rt:
        assert author_texts(run_turn(rt, "go"))[-1] == ("root", "sorry")
    with Deploy("local", tmp_path)(app(log, ("get_weather", {"city": "Atlantis"}), "show:last")) as rt:
        assert author_texts(run_turn(rt, "go", session_id="s2"))[-1] == ("root", "{'result': 'mended', 'by': 'spy'}")
    assert {"model_error no network", "tool_error it has sunk"} <= set(log.read_text().splitlines())


def test_a_failure_is_told_to_plugins(engine: str, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def refuse(callback_context: Any) -> None:
        raise ValueError("not today")

    root = LlmAgent(name="root", model=programs.Broken(), before_agent_callback=refuse)
    failing = App(name="weather", root_agent=root, plugins=[Spy(str(log))])
    with Deploy(engine, tmp_path)(failing) as rt, pytest.raises(AgentFailedError, match="not today"):
        run_turn(rt, "go")
    told = [line for line in log.read_text().splitlines() if "error" in line]
    assert told == ["agent_error root ValueError not today", "run_error root ValueError not today"]


def test_plugins_have_no_other_hooks_than_their_own() -> None:
    quiet = from_adk(App(name="weather", root_agent=programs.agent("root"), plugins=[GlobalInstructionPlugin("Be kind.")]))
    hooks = [name for name in vars(type(quiet.plugins[0])) if name.endswith("_callback")]
    assert hooks == ["before_model_callback"]


def test_plugins_of_adk_work(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugins = [
        LoggingPlugin(),
        GlobalInstructionPlugin("Be kind."),
        SaveFilesAsArtifactsPlugin(),
        ContextFilterPlugin(num_invocations_to_keep=1),
        ReflectAndRetryToolPlugin(max_retries=2),
    ]
    root = programs.agent("root", ("get_weather", {"city": "Atlantis"}), "show:last", tools=[get_weather])
    says = App(name="weather", root_agent=programs.agent("root", "show:instruction"), plugins=plugins)
    with Deploy("local", tmp_path)(says) as rt:
        file = types.Part(inline_data=types.Blob(data=b"data", mime_type="text/plain", display_name="note.txt"))
        text = _last(rt, types.Content(role="user", parts=[types.Part(text="look"), file]))
        assert "Be kind." in text
        assert rt.artifacts.list_keys(user_id="ada", session_id="s1") == ["note.txt"]
    with Deploy("local", tmp_path)(App(name="weather", root_agent=root, plugins=plugins)) as rt:
        assert "it has sunk" in _last(rt, "Atlantis?", session_id="s2")
    assert "[logging_plugin]" in capfd.readouterr().out


def _last(rt: Runtime, message: Any, **options: Any) -> str:
    events: list[Event] = run_turn(rt, message, **options)
    return author_texts(events)[-1][1]
