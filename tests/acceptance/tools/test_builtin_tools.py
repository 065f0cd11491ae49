"""Tools that models do not call: Gemini's own, examples, and memory that is there before it is asked for."""

from __future__ import annotations

from typing import Any, cast

import pytest
from google.genai import types

from actors import (
    BuiltInCodeExecutor,
    BuiltInTool,
    Content,
    Example,
    ExampleTool,
    FunctionCall,
    LlmAgent,
    Part,
    PreloadMemoryTool,
    RunConfig,
    code_execution,
    google_search,
    preload_memory,
    tool,
    url_context,
)
from actors.errors import DefinitionError, NoMemoryError
from actors.testing import PatternModel, ScriptedModel
from runtime.models.gemini import Gemini
from tests.support.runtimes import Deploy, author_texts, run_turn
from tests.support.servers.gemini_server import GeminiServer, Stream, answer, text

SSE = RunConfig(streaming="sse")
FOUND = {"webSearchQueries": ["ray"], "groundingChunks": [{"web": {"uri": "https://ray.io", "title": "Ray"}}]}


def gemini(server: GeminiServer) -> Gemini:
    return Gemini(model="gemini-2.5-flash", api_key="k", base_url=server.url)


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


def roll(sides: int) -> int:
    """Roll a die."""
    return sides


def grounded(reply: str) -> dict[str, Any]:
    made = text(reply)
    made["candidates"][0]["groundingMetadata"] = FOUND
    return made


def test_geminis_own_tools_go_over_the_wire_and_what_a_search_found_is_in_the_log(deploy: Deploy) -> None:
    config = types.GenerateContentConfig(tools=[types.Tool(google_maps=types.GoogleMaps())])
    with GeminiServer([grounded("Ray runs actors."), Stream([text("Ray ", finish_reason=None), grounded("runs.")])]) as server:
        root = LlmAgent(
            name="root",
            model=gemini(server),
            tools=[look_up, google_search, url_context],
            code_executor=BuiltInCodeExecutor(),
            generate_content_config=config,
        )
        with deploy(root) as rt:
            run_turn(rt, "What is Ray?")
            run_turn(rt, "In short?", run_config=SSE)
            session = rt.sessions.get("ada", "s1")
            assert session is not None
            assert author_texts(list(session.events))[1::2] == [("root", "Ray runs actors."), ("root", "Ray runs.")]
            assert [event.grounding_metadata for event in session.events] == [None, FOUND, None, FOUND]
            assert session.events[1].custom_metadata is None
        own: list[Any] = [{"googleMaps": {}}, {"codeExecution": {}}, {"googleSearch": {}}, {"urlContext": {}}]
        for request in server.requests:
            *others, functions = request.body["tools"]
            assert others == own
            assert [each["name"] for each in functions["functionDeclarations"]] == ["look_up"]
    assert root.generate_content_config == {"tools": [{"google_maps": {}}]}


def test_code_that_gemini_ran_is_in_the_answer_and_goes_back_to_it(local: Deploy) -> None:
    ran: list[dict[str, Any]] = [
        {"executableCode": {"code": "print(6 * 7)", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
        {"text": "It is 42."},
    ]
    with GeminiServer([answer(*ran), text("Yes.")]) as server:
        root = LlmAgent(name="root", model=gemini(server), tools=[code_execution], code_executor=BuiltInCodeExecutor())
        with local(root) as rt:
            assert author_texts(run_turn(rt, "6 times 7?")) == [("root", "It is 42.")]
            run_turn(rt, "Sure?")
        first, second = (request.body for request in server.requests)
        assert first["tools"] == [{"codeExecution": {}}]
        assert second["contents"][1]["parts"] == ran


def test_other_models_ignore_geminis_tools_and_a_call_of_one_is_made_up(local: Deploy) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="Hello."), tools=[google_search])
    with local(root) as rt:
        assert author_texts(run_turn(rt, "hi")) == [("root", "Hello.")]
    model = ScriptedModel([{"call": "google_search", "args": {"query": "ray"}}, "sorry"])
    with local(LlmAgent(name="root", model=model, tools=[google_search, BuiltInTool("retrieval", {"x": 1})])) as rt:
        made_up = run_turn(rt, "hi", session_id="s2")[1]
        assert "there is no function 'google_search' to call" in next(made_up.function_responses()).response["error"]
    assert model.requests[0].config["tools"] == [{"google_search": {}}, {"retrieval": {"x": 1}}]
    assert list(model.requests[0].tools) == []


@pytest.mark.parametrize(
    "tools",
    [
        [types.Tool(function_declarations=[types.FunctionDeclaration(name="f")])],
        [{"function_declarations": [{"name": "f"}]}],
        [roll],
    ],
)
def test_functions_in_the_configuration_belong_elsewhere(tools: list[Any]) -> None:
    config: Any = {"tools": tools} if isinstance(tools[0], dict) else types.GenerateContentConfig(tools=tools)
    with pytest.raises(DefinitionError, match=r"generate_content_config.tools: give functions as the agent's tools"):
        LlmAgent(name="root", generate_content_config=config)


def test_another_code_executor_is_refused() -> None:
    with pytest.raises(DefinitionError, match="code_executor: Input should be an instance of BuiltInCodeExecutor"):
        LlmAgent(name="root", code_executor=cast(Any, 3))


def said(text: str, role: str = "user") -> Any:
    return types.Content(role=role, parts=[types.Part(text=text)])


CALL = Content(role="model", parts=[Part(function_call=FunctionCall(name="roll", args={"sides": 6}))])


class ByWord:
    """Chooses examples by the message, as ADK's providers do."""

    def get_examples(self, query: str) -> list[Example]:
        return [Example(input=said(f"You say {query}."), output=[said("ok", "model")])] if "dice" in query else []


def test_examples_are_shown_in_the_system_instruction(local: Deploy) -> None:
    model = ScriptedModel(["a", "b", "c"])
    examples: list[Any] = [
        Example(input=said("Roll a die."), output=[CALL, said("I rolled a 4.", "model")]),
        {"input": {"role": "user", "parts": [{"text": "And two?"}]}, "output": [{"role": "model", "parts": [{"text": "3, 5."}]}]},
    ]
    with local(LlmAgent(name="root", model=model, tools=[ExampleTool(examples)])) as rt:
        run_turn(rt, "hi")
    with local(LlmAgent(name="root", model=model, tools=[ExampleTool(ByWord())])) as rt:
        run_turn(rt, "dice", session_id="s2")
        run_turn(rt, "hi", session_id="s2")
    first, second, third = (request.system_instruction for request in model.requests)
    assert 'user: Roll a die.\nyou call roll({"sides":6})\nyou: I rolled a 4.' in first
    assert "user: And two?\nyou: 3, 5." in first
    assert "user: You say dice." in second
    assert "example" not in third


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ExampleTool(cast(Any, "no")), "ExampleTool takes a list of Examples, not str"),
        (lambda: ExampleTool(cast(Any, [1])), "ExampleTool takes Examples, or dictionaries with input and output, not 1"),
        (lambda: Example(input=said("a"), output=said("b")), r"Example.output is a list of contents, not Content"),
        (lambda: Example(input=cast(Any, "a"), output=[]), "Example.input: a content must be a Content"),
        (lambda: Example(input=said("a"), output=[{"texts": 1}]), r"Example.output\[0\]: message has no field 'texts'"),
    ],
)
def test_wrong_examples_are_named(make: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        make()


def test_memory_is_shown_without_being_asked_for(local: Deploy) -> None:
    model = ScriptedModel(["Noted.", {"call": "look_up", "args": {"order": "tea"}}, "Green tea.", "Hm."])
    root = LlmAgent(name="root", model=model, tools=[preload_memory, look_up])
    with local(root) as rt:
        run_turn(rt, "I like green tea")
        rt.memory.add_session("ada", "s1")
        run_turn(rt, "Which tea do I like?", session_id="s2")
        run_turn(rt, "xyz", session_id="s2")
        session = rt.sessions.get("ada", "s2")
        assert session is not None
        assert "remember" not in str(session.events)
    _, asked, answered, other = ([content.text for content in request.contents] for request in model.requests)
    assert "] user: I like green tea" in asked[0]
    assert asked[1:] == ["Which tea do I like?"]
    # The request goes on as it began: what is remembered follows the response of the tool.
    assert answered[:3] == ["Which tea do I like?", "", ""]
    assert "I like green tea" in answered[3]
    assert len(other) == 5


def test_memory_that_the_app_has_not_fails_the_run(local: Deploy) -> None:
    root = LlmAgent(name="root", model=ScriptedModel(["x"]), tools=[PreloadMemoryTool()])
    with local(root, memory_store=None) as rt, pytest.raises(NoMemoryError):
        run_turn(rt, "hi")
