"""Programs written for ADK find its names here, with the same meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import (
    Agent,
    AgentTool,
    BaseAgent,
    CallbackContext,
    CustomAgent,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    Plugin,
    ReadonlyContext,
    RunConfig,
    SequentialAgent,
    Tool,
    ToolContext,
)
from actors.errors import DefinitionError, TurnTimeoutError
from actors.testing import PatternModel, ScriptedModel
from tests.support.agents.conversation_tools import Gate
from tests.support.fixtures.tool_contexts import tool_context
from tests.support.runtimes import Deploy, author_texts, run_turn


def look_up(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order, "status": "late"}


def ask_boss() -> None:
    """Ask the boss, who answers later."""


def test_an_agent_is_an_llm_agent_and_a_base_agent_is_any(local: Deploy) -> None:
    model = PatternModel([("late", {"call": "look_up", "args": {"order": "42"}}), ("tool:look_up", "It is late.")])
    root = Agent(name="root", model=model, instruction="Help.", tools=[look_up])
    assert Agent is LlmAgent
    for agent in (root, LoopAgent(name="loop", sub_agents=[root]), SequentialAgent(name="steps")):
        assert isinstance(agent, BaseAgent)
    assert not isinstance(LoopAgent(name="loop"), Agent)
    with local(root) as rt:
        assert author_texts(run_turn(rt, "Is 42 late?"))[-1] == ("root", "It is late.")


def test_function_tools_take_their_function_as_func(local: Deploy) -> None:
    tools = [FunctionTool(func=look_up), LongRunningFunctionTool(func=ask_boss)]
    assert [tool.func for tool in tools] == [look_up, ask_boss]
    model = ScriptedModel([{"call": "look_up", "args": {"order": "42"}}, {"call": "ask_boss"}])
    with local(Agent(name="root", model=model, tools=tools)) as rt:
        events = run_turn(rt, "Is 42 late?")
        assert next(events[1].function_responses()).response == {"order": "42", "status": "late"}
        # None is no answer yet.
        assert [call.name for call in rt.pending(session_id="s1", user_id="ada")] == ["ask_boss"]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match="LongRunningFunctionTool needs a function, not str"):
        LongRunningFunctionTool(func="ask_boss")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="AgentTool needs an agent, not function"):
        AgentTool(look_up)  # type: ignore[arg-type]


def test_arguments_that_the_model_made_up_are_dropped_with_a_line_in_the_log(
    local: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    helper = Agent(name="helper", model=PatternModel([], default="I help."))
    calls = [
        {"call": "look_up", "args": {"order": "42", "urgent": True}},
        {"call": "look_up", "args": {"urgent": True}},
        {"call": "look_up", "args": {"order": [], "urgent": True}},
        {"call": "helper", "args": {"request": "help", "urgent": True}},
    ]
    root = Agent(name="root", model=ScriptedModel([{"parts": calls}, "ok"]), tools=[look_up, AgentTool(helper)])
    with local(root) as rt:
        answered = next(event for event in run_turn(rt, "hi") if list(event.function_responses()))
        found, missing, wrong, helped = (answer.response for answer in answered.function_responses())
        assert found == {"order": "42", "status": "late"}
        assert "order: Field required" in missing["error"]
        assert "order: Input should be a valid string" in wrong["error"]
        assert helped == {"result": "I help."}
        for tool in ("look_up", "helper"):
            assert f"tool {tool!r} of agent 'root': dropped arguments that it does not take: ['urgent']" in caplog.text


class Callbacks:
    """Callbacks as programs for ADK have them, with parameters in an order of their own. They keep what they are called with."""

    def __init__(self) -> None:
        self.called: list[tuple[str, tuple[type, ...]]] = []

    def keep(self, point: str, *args: Any) -> None:
        self.called.append((point, tuple(LlmResponse if isinstance(arg, LlmResponse) else type(arg) for arg in args)))

    def before_agent(self, callback_context: CallbackContext) -> None:
        self.keep("before_agent", callback_context)

    def before_model(self, llm_request: LlmRequest, callback_context: CallbackContext) -> None:
        self.keep("before_model", callback_context, llm_request)

    def after_model(self, *, llm_response: LlmResponse, callback_context: CallbackContext) -> None:
        self.keep("after_model", callback_context, llm_response)

    def on_model_error(self, error: Exception, llm_request: LlmRequest, callback_context: CallbackContext) -> str:
        self.keep("on_model_error", callback_context, llm_request, error)
        return "the model is away"

    def before_tool(self, args: dict[str, Any], tool: Tool, tool_context: ToolContext) -> None:
        self.keep("before_tool", tool, args, tool_context)

    async def after_tool(self, **kwargs: Any) -> None:
        self.keep("after_tool", *(kwargs[name] for name in ("tool", "args", "tool_context", "tool_response")))

    def on_tool_error(self, error: Exception, tool: Tool, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        self.keep("on_tool_error", tool, args, tool_context, error)
        return {"status": "unknown"}

    def instruction(self, readonly_context: ReadonlyContext) -> str:
        self.keep("instruction", readonly_context)
        return "Help."


def test_callbacks_with_adks_names_are_called_by_keyword_in_any_order(local: Deploy) -> None:
    callbacks = Callbacks()
    root = Agent(
        name="root",
        model=ScriptedModel([{"call": "look_up"}, ValueError("line down")]),
        tools=[look_up],
        instruction=callbacks.instruction,
        before_agent_callback=[callbacks.before_agent, lambda context: callbacks.before_agent(context)],
        after_agent_callback=callbacks.before_agent,
        before_model_callback=callbacks.before_model,
        after_model_callback=callbacks.after_model,
        on_model_error_callback=callbacks.on_model_error,
        before_tool_callback=callbacks.before_tool,
        after_tool_callback=callbacks.after_tool,
        on_tool_error_callback=callbacks.on_tool_error,
    )
    with local(root) as rt:
        assert author_texts(run_turn(rt, "hi"))[-1] == ("root", "the model is away")
    run = ("before_agent", (CallbackContext,))
    asked = ("instruction", (ReadonlyContext,)), ("before_model", (CallbackContext, LlmRequest))
    answered = ("after_model", (CallbackContext, LlmResponse))
    assert callbacks.called == [
        *(run, run, *asked, answered),
        ("before_tool", (FunctionTool, dict, ToolContext)),
        ("on_tool_error", (FunctionTool, dict, ToolContext, ValueError)),
        ("after_tool", (FunctionTool, dict, ToolContext, dict)),
        *(*asked, ("on_model_error", (CallbackContext, LlmRequest, ValueError)), answered, run),
    ]


class Listening(Plugin):
    """A plugin whose hooks have the parameters of ADK's plugins."""

    name = "listening"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:  # type: ignore[override]
        self.heard.append(user_message.text)

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:  # type: ignore[override]
        self.heard.append((tool.name, tool_args, result["status"]))


def test_hooks_of_plugins_may_have_the_names_that_adks_plugins_have(local: Deploy) -> None:
    model = ScriptedModel([{"call": "look_up", "args": {"order": "42"}}, "It is late."])
    plugin = Listening()
    with local(Agent(name="root", model=model, tools=[look_up]), plugins=[plugin]) as rt:
        run_turn(rt, "Is 42 late?")
    assert plugin.heard == ["Is 42 late?", ("look_up", {"order": "42"}, "late")]


@pytest.mark.parametrize(
    ("field", "callback", "words"),
    [
        ("before_tool_callback", lambda ctx, tool_name, args: None, "'args' would be given 'tool_context'"),
        ("before_model_callback", lambda callback_context: None, "cannot be called with 2 arguments. Give it the parameters"),
        ("after_model_callback", [print, lambda llm_response, context: None], "'llm_response' would be given 'callback_context'"),
        ("instruction", lambda: "Help.", "cannot be called with 1 argument. Give it one parameter: readonly_context, or"),
    ],
)
def test_a_callback_that_cannot_be_called_rightly_is_refused_with_its_agent(field: str, callback: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=f"Agent 'root'.*{field} .*lambda.*{words}"):
        Agent(name="root", **{field: callback})


def test_a_hook_that_cannot_be_called_is_refused_with_its_deployment(local: Deploy) -> None:
    class Wrong(Plugin):
        name = "wrong"

        def before_model_callback(self, request: LlmRequest) -> None:  # type: ignore[override]
            """Has too few parameters."""

    with pytest.raises(DefinitionError, match=r"before_model_callback .*Wrong.before_model_callback\(request.*2 arguments"):
        local(Agent(name="root", model="m"), plugins=[Wrong()])


class Waiting:
    """Sync functions of an agent that wait at a gate when the message names them."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def _wait(self, context: ReadonlyContext, point: str) -> None:
        if context.user_content.text == point:
            self._gate.wait()

    def before_agent(self, callback_context: CallbackContext) -> None:
        self._wait(callback_context, "before_agent")

    def before_run(self, context: CallbackContext) -> None:
        self._wait(context, "before_run")

    def instruction(self, readonly_context: ReadonlyContext) -> str:
        self._wait(readonly_context, "instruction")
        return "Help."


class WaitingPlugin(Plugin):
    """A plugin whose hook waits."""

    name = "waiting"

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    def before_run_callback(self, context: CallbackContext) -> None:
        """Wait when the message says so."""
        self._waiting.before_run(context)


def check_others_go_on(deploy: Deploy, folder: Path, point: str) -> None:
    """While a function waits at a point, others have their answers; its own turn ends in time, and the session's next works."""
    gate = Gate(folder)
    waiting = Waiting(gate)
    model = PatternModel([], default="hello")
    root = Agent(name="root", model=model, instruction=waiting.instruction, before_agent_callback=waiting.before_agent)
    with deploy(root, plugins=[WaitingPlugin(waiting)]) as rt:
        # The agent is at home then, so the time is not spent on the start of its process.
        run_turn(rt, "hi")
        turn = rt.run(user_id="bob", session_id="bobs", message=point, run_config=RunConfig(timeout=1))
        gate.wait_for_caller()
        assert author_texts(run_turn(rt, "hi")) == [("root", "hello")]
        with pytest.raises(TurnTimeoutError):
            turn.result()
        assert author_texts(run_turn(rt, "hi", session_id="bobs", user_id="bob")) == [("root", "hello")]
        gate.release()


def test_a_callback_that_blocks_holds_up_no_other_session_and_its_turns_timeout_holds(deploy: Deploy, tmp_path: Path) -> None:
    check_others_go_on(deploy, tmp_path, "before_agent")


@pytest.mark.parametrize("point", ["instruction", "before_run"])
def test_neither_does_an_instruction_nor_a_hook_that_blocks(local: Deploy, tmp_path: Path, point: str) -> None:
    check_others_go_on(local, tmp_path, point)


class Newsroom(CustomAgent):
    """An agent that is never run."""

    longest: int = 40


def test_a_definition_says_how_to_make_another_one_instead_of_changing_it() -> None:
    agent = Agent(name="root", model="m", tools=[look_up])
    with pytest.raises(
        DefinitionError, match=r"'root' is fixed .*: model cannot be set. agent.model_copy\(update={'model': …}\)"
    ):
        agent.model = "other"
    with pytest.raises(DefinitionError, match="longest cannot be set"):
        Newsroom(name="news").longest = 3
    for tools in (agent.tools, Agent(name="bare").tools):
        with pytest.raises(AttributeError, match=r"agent.model_copy\(update={'tools': \[\*agent.tools, …\]}\)"):
            tools.append(ask_boss)  # type: ignore[attr-defined]


def test_a_copy_with_other_fields_is_checked_like_a_new_definition() -> None:
    agent = Agent(name="root", model="m", tools=[look_up], description="Helps.")
    other = agent.model_copy(update={"tools": [*agent.tools, ask_boss], "name": "other"})
    assert [tool.name for tool in other.tools] == ["look_up", "ask_boss"]
    assert (agent.name, len(agent.tools), other.name, other.description) == ("root", 1, "other", "Helps.")
    assert agent.model_copy() == agent
    assert Newsroom(name="news").model_copy(update={"longest": 3}).longest == 3
    for wrong in ({"name": "a b"}, {"instructions": "typo"}, {"tools": [3]}):
        with pytest.raises(DefinitionError, match=r"'a b'|'root'.*(instructions|tools)"):
            agent.model_copy(update=wrong)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("find_agent", r"AgentTree\(root\).find\(name\)"),
        ("parent_agent", r"AgentTree\(root\).topology"),
        ("clone", "agent.model_copy"),
        ("run_async", r"rt.run\(…\)"),
        ("nonsense", "nonsense"),
    ],
)
def test_what_only_adks_agents_have_is_named_with_what_to_do_instead(name: str, instead: str) -> None:
    assert not hasattr(Newsroom(name="news"), name)
    with pytest.raises(AttributeError, match=f"{name}.*{instead}|{instead}"):
        getattr(Agent(name="root"), name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("_invocation_context", r"context\.session"),
        ("request_credential", "long-running tool"),
        ("save_credential", "long-running tool"),
        ("nonsense", "'nonsense'"),
    ],
)
def test_what_only_adks_contexts_have_is_named_with_what_to_do_instead(name: str, instead: str) -> None:
    context = tool_context()
    assert not hasattr(context, name)
    with pytest.raises(AttributeError, match=f"ToolContext has no attribute '{name}'.*{instead}|{instead}"):
        getattr(context, name)


def test_a_custom_agent_with_the_method_of_adks_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(DefinitionError, match=r"Story defines _run_async_impl: .* run\(self, context\)"):

        class Story(CustomAgent):
            async def _run_async_impl(self, ctx: Any) -> None:
                """Do the work as in ADK."""


def test_requests_and_responses_have_the_names_of_adk(local: Deploy) -> None:
    seen: list[Any] = []

    def before(context: CallbackContext, request: LlmRequest) -> None:
        request.set_output_schema(list[int])

    def after(context: CallbackContext, response: LlmResponse) -> None:
        seen.append((response.get_function_calls(), response.get_function_responses(), response.usage_metadata))

    model = ScriptedModel([{"call": "look_up", "args": {"order": "42"}}, "[1]"])
    root = Agent(name="root", model=model, tools=[look_up], before_model_callback=before, after_model_callback=after)
    with local(root) as rt:
        called, answered, _ = run_turn(rt, "Is 42 late?")
    assert [call.name for call in called.get_function_calls()] == ["look_up"]
    assert [response.name for response in answered.get_function_responses()] == ["look_up"]
    assert called.usage_metadata == called.usage
    assert [[call.name for call in calls] for calls, _, _ in seen] == [["look_up"], []]
    assert model.requests[0].output_schema == {"type": "array", "items": {"type": "integer"}}


def test_a_response_that_fits_no_type_cannot_be_asked_for() -> None:
    request = LlmRequest()
    request.set_output_schema(base_model={"type": "object"})
    assert request.output_schema == {"type": "object"}
    with pytest.raises(TypeError, match="set_output_schema takes a pydantic model, another type or a JSON schema, not <object"):
        request.set_output_schema(object())
