"""Whatever programs define or call says which argument was meant: constructors, decorators and methods, all of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import actors
import actors.testing
import runtime
from actors import Flow, FlowAgent, LlmAgent, RunConfig, SequentialAgent, Task
from actors.errors import DefinitionError, RaygroveError, RequestError
from actors.errors.hints import explains_all_wrong_calls
from runtime import Runtime, Settings
from runtime.driver.arguments import run_config_of

ROOT: Any = LlmAgent(name="root", model="gemini-2.5-flash")
AGENT: Any = LlmAgent
CREATE: Any = Runtime
FLOW = Flow([Task("Say hello", agents=[ROOT])])

OF_ACTORS = """
AgentInfo BatchInfo BatchItem BoardTask CallAttempt CallQuery CallbackContext Cancelled CaseTurn DeploymentEvent
EdgeReason EventCompaction Failed Finished FlowBoard FlowMark LlmRequest LogLine MapResult NodeContext NodeInfo Outcome
Paused PendingCall Question ReadonlyContext RecordedCall RuntimeStatistics Schedule SelectionReason Session TaskChange
TaskNode TaskResult ToolContext Transfer Turn TurnDescription TurnInfo TurnMap TurnQuery TurnResult Usage UsageReport
UsageSums UsedTurn

Blob Content Event EventActions FileData FunctionCall FunctionResponse LlmResponse Part
"""
MADE_BY_ACTORS = {*OF_ACTORS.split()}
"""Public classes that suggest nothing: programs are given those of a run, a turn or a deployment.

The last ones are made by actors by the thousand, and msgspec names the wrong field.
"""

FIRST: dict[str, tuple[object, ...]] = {"FlowAgent": (FLOW,)}


def takes_keywords() -> Iterator[tuple[str, Callable[..., object], list[str]]]:
    """Every public constructor and decorator with the keywords that it takes."""
    for module in (actors, runtime, actors.testing):
        for name in module.__all__:
            thing = getattr(module, name)
            if name in MADE_BY_ACTORS or not callable(thing) or getattr(thing, "_is_protocol", False):
                continue
            if keywords := keywords_of(thing):
                yield name, thing, keywords


def keywords_of(thing: Any) -> list[str]:
    if hasattr(thing, "model_fields"):
        return list(thing.model_fields)
    if isinstance(thing, type) and issubclass(thing, msgspec.Struct):
        return list(thing.__struct_fields__)
    if isinstance(thing, type) and issubclass(thing, dict):
        return []
    parameters = inspect.signature(thing).parameters.values()
    return [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]


def misspelt(keyword: str) -> str:
    return f"{keyword}s" if len(keyword) < 5 else keyword[:-2] + keyword[-1]


CASES = [
    (thing, FIRST.get(name, ()), keyword)
    for name, thing, keywords in takes_keywords()
    for keyword in keywords
    if misspelt(keyword) not in keywords
]


def test_a_misspelt_keyword_is_refused_with_the_one_that_was_meant() -> None:
    for thing, unnamed, keyword in CASES:
        with pytest.raises((RaygroveError, TypeError), match=f"Did you mean '{keyword}'"):
            thing(*unnamed, **{misspelt(keyword): None})


def test_all_that_takes_keywords_is_tried() -> None:
    assert len(CASES) > 180
    assert {"LlmAgent", "Runtime", "RunConfig", "Settings", "tool", "python_tool", "McpTools", "Task", "Placement"} <= {
        name for name, _, _ in takes_keywords()
    }
    public = {*actors.__all__, *runtime.__all__, *actors.testing.__all__}
    assert public >= MADE_BY_ACTORS


@pytest.fixture
def rt() -> Runtime:
    return Runtime(ROOT, app_name="app", engine="local", session_store="sqlite://")


def methods(rt: Runtime) -> Iterator[tuple[Callable[..., object], str]]:
    """Every method of a Runtime and its services with one of its keywords."""
    services = [rt, rt.aio]
    for owner in services[:2]:
        services += [getattr(owner, name) for name in ("sessions", "turns", "artifacts", "memory", "users")]
    for service in services:
        for name, method in inspect.getmembers(service, inspect.ismethod):
            if not name.startswith("_") and (keywords := keywords_of(method)):
                yield method, keywords[-1]


async def test_methods_say_which_keyword_was_meant(rt: Runtime) -> None:
    tried = []
    # Those that hand their keywords on to another method are that method's.
    for method, keyword in methods(rt):
        with pytest.raises(TypeError, match=f"Did you mean '{keyword}'"):  # noqa: PT012
            running = method(**{misspelt(keyword): None})
            if inspect.isawaitable(running):
                await running
        tried.append(getattr(method, "__qualname__", ""))
    assert len(tried) > 40


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda rt: rt.run("hi"), "takes its arguments by name: write Runtime.run(user_id=…, session_id=…, message=…)"),
        (
            lambda rt: rt.run_flow(FLOW, "ada"),
            "takes all arguments but flow by name: write Runtime.run_flow(flow, user_id=…, session_id=…)",
        ),
        (lambda rt: rt.shutdown("now"), "takes no arguments: write Runtime.shutdown()"),
        (lambda rt: CREATE(ROOT, "app"), "takes all arguments but root_agent by name: write Runtime(root_agent, app_name=…)"),
        (lambda rt: CREATE.connect("app", "here"), "takes all arguments but app_name by name: write Runtime.connect(app_name)"),
        (
            lambda rt: rt.run(),
            "Runtime.run() lacks user_id and session_id and message: write Runtime.run(user_id=…, session_id=…, message=…)",
        ),
        (
            lambda rt: rt.sessions.get("ada"),
            "SessionsService.get() lacks session_id: write SessionsService.get(user_id, session_id)",
        ),
        (lambda rt: CREATE(ROOT), "Runtime() lacks app_name: write Runtime(root_agent, app_name=…)"),
    ],
)
def test_arguments_without_a_name_are_refused_with_the_call_as_it_should_be(
    rt: Runtime, call: Callable[[Runtime], object], sentence: str
) -> None:
    with pytest.raises(TypeError) as told:
        call(rt)
    assert str(told.value).endswith(sentence)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("hi", int), "the type of the answer is given by name: rt.ask('hi', result_type=int)"),
        (("rot", "hi"), "agent 'rot' is not in the tree. Did you mean 'root'?"),
        (("a", "b", "c"), "ask takes a message, or an agent and a message: rt.ask('…') or rt.ask(agent, '…')"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_what_to_write(rt: Runtime, asked: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(RequestError) as told:
        rt.ask(*asked)
    assert str(told.value) == sentence


@pytest.mark.parametrize(
    ("define", "sentence"),
    [
        (lambda: AGENT(name="a", sub_agents=ROOT), "it is a list: write sub_agents=[root] instead of sub_agents=root"),
        (lambda: AGENT(name="a", tools=len), "tools: it is a list: write tools=[len]"),
        (lambda: AGENT(name="a", tools="print"), "tools: it is a list of tools, not 'print'"),
        (lambda: AGENT(name="a", tools={1}), "tools: it is a list of tools, not {1}"),
        (lambda: AGENT(name="a", sub_agents="root"), "sub_agents: it is a list of agents, not 'root'"),
        (lambda: SequentialAgent(name="a", sub_agents=[AGENT]), "the class LlmAgent, not an agent: write LlmAgent(name=…)"),
        (lambda: AGENT(name="a", sub_agents=[CREATE.map]), "is no agent, but a function"),
        (lambda: Runtime(LlmAgent, app_name="a"), "root_agent must be an agent: it is the class LlmAgent"),
        (lambda: Runtime("root", app_name="a"), "root_agent must be an agent: 'root' is no agent, but a str"),
        (lambda: Settings(model_limits={"*": {"max_concurency": 1}}), "no such field. Did you mean 'max_concurrency'?"),
    ],
)
def test_what_is_no_agent_is_refused_with_what_to_write(define: Callable[[], object], sentence: str) -> None:
    with pytest.raises(DefinitionError) as told:
        define()
    assert sentence in str(told.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"straming": "sse"}, "RunConfig() got an unexpected keyword argument 'straming'. Did you mean 'streaming'?"),
        ({"streaming": "yes"}, "RunConfig.streaming must be one of 'none', 'sse', not 'yes'"),
        ({"max_llm_calls": "3"}, "RunConfig.max_llm_calls must be an int, not '3'"),
        ({"timeout": -1}, "RunConfig.timeout must be more than 0 seconds or None, not -1"),
        ("sse", "run_config is a RunConfig, or a dictionary of its fields, not 'sse'"),
        ("", "run_config is a RunConfig, or a dictionary of its fields, not ''"),
    ],
)
def test_options_of_a_turn_that_are_wrong_are_refused_where_they_are_given(rt: Runtime, given: Any, sentence: str) -> None:
    for call in (
        lambda: rt.run(user_id="u", session_id="s", message="hi", run_config=given),
        lambda: rt.map(["hi"], run_config=given),
        lambda: rt.ask("hi", run_config=given),
        lambda: rt.run_task("hi", run_config=given),
    ):
        with pytest.raises(RequestError) as told:
            call()
        assert str(told.value) == sentence


def test_options_of_a_turn_may_be_a_dictionary() -> None:
    assert run_config_of({"streaming": "sse", "max_llm_calls": 3}) == RunConfig(streaming="sse", max_llm_calls=3)
    assert run_config_of(None) == run_config_of({}) == RunConfig()


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ("hello", "a map takes several inputs, not one text: write ['hello']"),
        (b"hello", "a map takes several inputs, not one text: write [b'hello']"),
        ({"message": "hello"}, "a map takes several inputs, not one dict: put it into a list"),
        (actors.Content.of_text("hello"), "a map takes several inputs, not one Content: put it into a list"),
        (5, "a map takes an iterable or async iterable of inputs, not 5"),
    ],
)
def test_a_map_of_one_text_is_refused(rt: Runtime, inputs: Any, sentence: str) -> None:
    for call in (rt.map, rt.aio.map):
        with pytest.raises(RequestError) as told:
            call(inputs)
        assert str(told.value) == sentence


def test_errors_within_a_call_stay_as_they_are() -> None:
    @explains_all_wrong_calls
    class Plain:
        def fail(self, *, reason: str) -> None:
            raise TypeError(reason)

        async def wait(self, *, reason: str) -> None:
            raise TypeError(reason)

    with pytest.raises(TypeError, match=r"^mine$"):
        Plain().fail(reason="mine")
    with pytest.raises(TypeError, match=r"Plain.fail\(\) lacks reason: write Plain.fail\(reason=…\)"):
        Plain().fail()  # type: ignore[call-arg]
    assert inspect.iscoroutinefunction(Plain.wait)
    assert list(inspect.signature(Plain.fail).parameters) == ["self", "reason"]


def test_a_struct_that_is_checked_is_decoded_and_replaced_as_any_other() -> None:
    assert msgspec.json.decode(b'{"max_transfers": 2}', type=RunConfig) == RunConfig(max_transfers=2)
    assert msgspec.structs.replace(RunConfig(), max_llm_calls=1) == RunConfig(max_llm_calls=1)
    with pytest.raises(TypeError, match="Extra positional arguments provided"):
        RunConfig("sse")  # type: ignore[call-arg]
    with pytest.raises(DefinitionError, match="Did you mean 'placement'"):
        FlowAgent(FLOW, placment=None)


CALL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timeout": "5"}, "RunConfig.timeout must be a number of seconds or None, not '5'"),
        ({"timeout": True}, "RunConfig.timeout must be a number of seconds or None, not True"),
        ({"timeout": 0}, "RunConfig.timeout must be more than 0 seconds or None, not 0"),
        ({"max_llm_calls": "many"}, "RunConfig.max_llm_calls must be an int, not 'many'"),
        ({"max_llm_calls": None}, "RunConfig.max_llm_calls must be an int, not None"),
        ({"max_llm_calls": 2.0}, "RunConfig.max_llm_calls must be an int, not 2.0"),
        ({"max_transfers": "x" * 99}, "RunConfig.max_transfers must be an int, not 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
        ({"max_transfers": -1}, "RunConfig.max_transfers must be 0 or more, not -1"),
        ({"save_input_blobs_as_artifacts": 1}, "RunConfig.save_input_blobs_as_artifacts must be a bool, not 1"),
        ({"streaming": True}, "RunConfig.streaming must be one of 'none', 'sse', not True"),
        ({"streaming": []}, "RunConfig.streaming must be one of 'none', 'sse', not []"),
        ({"on_concurrent_turn": "wait"}, "RunConfig.on_concurrent_turn must be one of 'enqueue', 'steer', 'reject', 'interrupt'"),
        ({"custom_metadata": "x"}, "RunConfig.custom_metadata must be a dict or None, not 'x'"),
        ({"model_input_context": "x"}, "RunConfig.model_input_context must be a list of contents or texts, or None, not 'x'"),
        (
            {"model_input_context": [1]},
            "RunConfig.model_input_context: a content must be a Content, ours or google-genai's, not int",
        ),
        ({"model_input_context": [{"rolle": "user"}]}, "RunConfig.model_input_context: message has no field 'rolle'"),
        ({"model_input_context": [""]}, "RunConfig.model_input_context has a content that says nothing"),
        ({"model_input_context": [CALL]}, "RunConfig.model_input_context has a function call or response"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_right(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        RunConfig(**fields)
