"""Mistakes that new users make, and the sentence that each gets: what was wrong, and what to write."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import actors
import raygrove
import runtime
from actors import START, CustomAgent, Edge, Graph, LlmAgent, NodeContext, SequentialAgent, ToolContext, tool
from actors.messages.llm import CONFIG_FIELDS
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.console import cli

MODEL: Any = PatternModel([("pay", {"call": "pay", "args": {"amount": 80}}), ("tool:pay", "It is paid.")], default="ok")


class Invoice(BaseModel):
    number: int


def agent(name: str = "root", **fields: Any) -> LlmAgent:
    return LlmAgent(**{"name": name, "model": MODEL} | fields)


def started(root: Any, **options: Any) -> Runtime:
    return Runtime(root, **{"app_name": "app", "engine": "local", "session_store": "sqlite://"} | options).start()


def told(root: Any, message: Any = "pay", **options: Any) -> Any:
    """Ask an agent."""
    with started(root) as rt:
        return rt.ask(message, **options)


def with_runtime(use: Callable[[Any], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with started(agent(sub_agents=[agent("billing"), agent("reviewer")])) as rt:
            rt.run(user_id="ada", session_id="s1", message="hello").result()
            return use(rt)

    return run


class Speaker(CustomAgent):
    async def run(self, context: Any) -> Any:
        yield "hello"


@tool
def asks_wrongly(context: ToolContext) -> None:
    """Ask."""
    context.request_input({"message": "How many?"}, response_schema={})  # type: ignore[call-arg]


def add(node_input: int) -> int:
    return node_input + 1


def asks(ctx: NodeContext, node_input: str) -> None:
    ctx.request_input({"message": "How many?"})  # type: ignore[attr-defined]


def star() -> Any:
    names: dict[str, Any] = {}
    exec("from raygrove import *", names)
    assert {*actors.__all__, *runtime.__all__} <= names.keys()
    return names["NoSuchName"]


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    # Names.
    "the Runner of google-adk": (lambda: exec("from raygrove import Runner"), r"no Runner\. In its place: Runtime\("),
    "the Runner, from runtime": (lambda: exec("from runtime import InMemoryRunner"), r"In its place: Runtime\("),
    "a graph of LangGraph": (lambda: exec("from raygrove import StateGraph"), r"In its place: Graph\(name=…, edges="),
    "a session service": (lambda: exec("from actors import DatabaseSessionService"), r"session_store='sqlite:///"),
    # Definitions.
    "a misspelt configuration": (
        lambda: agent(generate_content_config={"temprature": 1}),
        "'temprature'.* Did you mean 'temperature'",
    ),
    "OpenAI's name of a limit": (lambda: agent(generate_content_config={"max_tokens": 9}), "Did you mean 'max_output_tokens'"),
    "no model": (lambda: started(LlmAgent(name="root")), "agent 'root' has no model: give it one"),
    "a tool that is a text": (lambda: agent(tools=["search"]), "must be a Tool or a function"),
    "a schema that is a text": (lambda: agent(output_schema="Invoice"), "output_schema"),
    "ADK's method of a custom agent": (
        lambda: type("OfAdk", (CustomAgent,), {"_run_async_impl": lambda self, context: None}),
        r"_run_async_impl: the method of a CustomAgent is run\(self, context\)",
    ),
    "a child that is a function": (lambda: SequentialAgent(name="s", sub_agents=[add]), "sub_agents"),  # type: ignore[list-item]
    # Graphs.
    "no START": (lambda: Graph(name="g", edges=[(add, asks)]), r"has no edge from START.*add one, \(START, first\)"),
    "a circle": (lambda: Graph(name="g", edges=[(START, add), Edge(add, asks), Edge(asks, add)]), "runs in a circle for ever"),
    "a value that does not fit": (
        lambda: told(Graph(name="g", edges=[(START, add)]), "seven"),
        r"parameter 'node_input' of node 'g@1/add@1'\n.*valid integer.*input_value='seven'",
    ),
    "a context without questions": (
        lambda: told(Graph(name="g", edges=[(START, asks)])),
        r"NodeContext has no attribute 'request_input': .*RequestInput\(message=…",
    ),
    "a typed answer that does not fit": (
        lambda: told(Graph(name="g", edges=[(START, add)]), "7", result_type=Invoice),
        r"of agent 'g'.*It answered '8'; asked for is .*Invoice",
    ),
    # Turns.
    "arguments in their places": (
        with_runtime(lambda rt: rt.run("ada", "s1", "hello")),
        r"takes its arguments by name: write Runtime\.run\(",
    ),
    "an agent that is not": (
        with_runtime(lambda rt: rt.ask("bcd", "hello")),
        r"'bcd' is not in the tree\. It has root, billing, reviewer\.",
    ),
    "an unknown turn": (
        with_runtime(lambda rt: rt.attach(user_id="ada", session_id="s1", invocation_id="e-1").result()),
        r"'e-1' not found in session 's1': rt\.turns\.list\(user_id, session_id\) has",
    ),
    "an unknown session": (
        with_runtime(lambda rt: rt.attach(user_id="ada", session_id="s9", invocation_id="e-1").result()),
        "session 's9' of user 'ada' not found in app 'app': create it first",
    ),
    "an answer without one": (with_runtime(lambda rt: rt.answer("call-1")), r"rt\.answer\(call_id, response=…, user_id=…"),
    "an answer that is not asked for": (
        with_runtime(lambda rt: rt.answer("call-1", 3, user_id="ada", session_id="s1").result()),
        "call 'call-1' waits for no answer in session 's1'. Calls that wait: none",
    ),
    "an answer that is no JSON": (
        lambda: told(agent(output_schema=Invoice), "hello"),
        "of agent 'root'.*output_schema.*It answered 'ok'",
    ),
    "a custom agent that yields a text": (
        lambda: told(Speaker(name="speaker")),
        r"must yield Events, not str: for a text write Event\(content=Content\.of_text",
    ),
    # Places.
    "an engine that is none": (lambda: started(agent(), engine="loca"), "local"),
    "an address that is none": (
        lambda: Runtime.connect("app", address="nonsense").start(),
        r"'nonsense' is no address of a Ray: give host:port, such as 127\.0\.0\.1:6379",
    ),
    "a store that is no URL": (lambda: started(agent(), session_store="sessions.db"), r"sqlite:///"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence_that_says_what_to_write(mistake: str) -> None:
    make, sentence = MISTAKES[mistake]
    with pytest.raises(Exception, match=re.compile(sentence, re.DOTALL)):
        make()


def test_the_star_imports_all_public_names() -> None:
    with pytest.raises(KeyError, match="NoSuchName"):
        star()
    assert raygrove.Runtime is Runtime


def test_start_returns_the_runtime() -> None:
    with started(agent()) as rt:
        assert rt.ask("hello") == "ok"


def test_a_route_that_no_edge_has_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def decide(ctx: NodeContext, node_input: str) -> None:
        ctx.route = node_input

    graph = Graph(name="g", edges=[(START, decide, {"approved": add})])
    with started(graph) as rt, caplog.at_level(logging.WARNING):
        rt.run(user_id="ada", session_id="s1", message="aproved").result()
    [warning] = [record.getMessage() for record in caplog.records if "route" in record.getMessage()]
    assert warning.startswith("node 'decide' of graph 'g' has said the route 'aproved', which none of its edges has")
    assert "Its edges have 'approved'. Did you mean 'approved'?" in warning


def test_a_tool_that_asks_wrongly_says_how_it_is_done(caplog: pytest.LogCaptureFixture) -> None:
    model = PatternModel([("hello", {"call": "asks_wrongly", "args": {}})], default="ok")
    with started(LlmAgent(name="root", model=model, tools=[asks_wrongly])) as rt, caplog.at_level(logging.WARNING):
        rt.run(user_id="ada", session_id="s1", message="hello").result()
    assert "unexpected keyword argument 'response_schema'. It takes: question, memo" in caplog.text


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("How many?", "a question is a dictionary, such as {'message': 'How many?'}, not str"),
        ({"mesage": "How many?"}, "a question has no field 'mesage'. Did you mean 'message'?"),
        ({"message": "?", "requested_schema": {}}, "a question has no field 'requested_schema'. Did you mean 'requestedSchema'?"),
    ],
)
def test_a_question_of_a_wrong_form_is_refused(question: Any, sentence: str, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def ask(context: ToolContext) -> None:
        """Ask."""
        context.request_input(question)

    model = PatternModel([("hello", {"call": "ask", "args": {}})], default="ok")
    with started(LlmAgent(name="root", model=model, tools=[ask])) as rt, caplog.at_level(logging.WARNING):
        rt.run(user_id="ada", session_id="s1", message="hello").result()
    assert sentence in caplog.text


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database\n" * 1_000)
    with pytest.raises(
        Exception, match=r"notes\.db.*file is not a database\. The file is of something else, or damaged: name another"
    ):
        started(agent(), session_store=f"sqlite:///{tmp_path}/notes.db")


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_the_command_for_limits_says_which_numbers_it_takes(number: str) -> None:
    result = CliRunner().invoke(cli.app, ["limits", "app", "gemini-*", f"--concurrency={number}"])
    assert result.exit_code == 2
    said = "Invalid value for --concurrency: a limit is a number from 1 on, or 'none' for no limit"
    assert said in " ".join(result.output.replace("│", " ").split())


def test_the_fields_of_a_configuration_are_those_of_google_genai() -> None:
    code = "from google.genai import types; print(*types.GenerateContentConfig.model_fields)"
    fields = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(fields) == CONFIG_FIELDS
