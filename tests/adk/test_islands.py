"""What has no counterpart runs inside ADK's own Runner, in one actor, and goes on after a loss where the log ends."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events import Event, RequestInput
from google.adk.workflow import START
from google.genai import types

from actors import Content, FunctionResponse, Part
from actors.errors import DefinitionError
from runtime.adk import from_adk
from runtime.driver.runtime import Runtime
from tests.adk import programs
from tests.adk.notes import log, noted, noted_lines
from tests.support.runtimes import Deploy, author_texts, run_turn, stored_state


def dies_once(name: str) -> None:
    """Kill the process, once, unless it is the one of the tests."""
    noted(name)
    mark = log().with_suffix(f".{name}.died")
    if os.environ["ADK_TEST_PID"] != str(os.getpid()) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


# A graph that asks a person.


def draft(node_input: Any) -> str:
    noted("draft")
    text = node_input if isinstance(node_input, str) else node_input.parts[0].text
    return f"draft of {text}"


def ask(node_input: str) -> Any:
    return RequestInput(interrupt_id="consent", message=f"May I send the {node_input}?")


def send(node_input: Any) -> Event:
    dies_once("send")
    text = f"sent: {node_input}"
    return Event(content=types.Content(role="model", parts=[types.Part(text=text)]), state={"sent": True})


graph = programs.OwnWorkflow(name="graph", edges=[(START, draft, ask, send)])


# A subclass of LlmAgent, with a tool in which the process dies.


def first_tool() -> str:
    """The tool that finishes."""
    noted("first")
    return "one"


def second_tool() -> str:
    """The tool in which the process dies."""
    dies_once("second")
    return "two"


class Fancy(LlmAgent):  # type: ignore[misc]
    """A subclass."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Any, None]:
        async for event in super()._run_async_impl(ctx):
            yield event


fancy = Fancy(
    name="fancy",
    model=programs.Scripted(is_noted=True, steps=[("first_tool", {}), ("second_tool", {}), "survived"]),
    tools=[first_tool, second_tool],
    output_key="said",
)

# An agent that delegates, which becomes one of raygrove's.

helper = programs.agent("helper", "I did it.", description="Does it.", mode="single_turn")
chief = programs.agent("chief", ("helper", {"request": "do it"}), "show:last", sub_agents=[helper])


# A subclass of BaseAgent, whose process dies between its children.


class Pair(BaseAgent):  # type: ignore[misc]
    """Runs its children, one after the other."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        for child in self.sub_agents:
            async for event in child.run_async(ctx):
                yield event
            dies_once(f"after {child.name}")


def look_up(key: str) -> str:
    """Look something up."""
    noted(f"look up {key}")
    return f"the value of {key}"


seeker = LlmAgent(
    name="seeker",
    model=programs.Scripted(is_noted=True, steps=[("look_up", {"key": "a"}), "I have a"]),
    tools=[look_up],
    output_key="found",
)
writer = LlmAgent(
    name="writer", model=programs.Scripted(is_noted=True, steps=[("look_up", {"key": "b"}), "I have b"]), tools=[look_up]
)
pair = Pair(name="pair", sub_agents=[seeker, writer])


class Router(BaseAgent):  # type: ignore[misc]
    """Runs the child that the message names, as `name: text`."""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        said = [event.content.parts[0].text for event in ctx.session.events if event.author == "user"]
        name = [text for text in said if text][-1].partition(":")[0]
        async for event in next(each for each in self.sub_agents if each.name == name).run_async(ctx):
            yield event


router = Router(name="router", sub_agents=[fancy, chief, pair])


@pytest.fixture(scope="module", params=["local", "ray"])
def rt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    log().unlink(missing_ok=True)
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    adapted = from_adk(router, islands=True)
    assert [note.partition(",")[0] for note in adapted.notes] == [
        "agent 'fancy': Fancy is a subclass of LlmAgent with _run_async_impl of its own",
    ]
    with Deploy(request.param, tmp_path_factory.mktemp("islands"))(adapted.root_agent) as runtime:
        yield runtime


def is_killed(rt: Runtime, agent: str) -> bool:
    # What has ended its process goes on in one of its own, which is gone afterwards.
    living = rt.statistics().agents.get(agent)
    return living is None or living.pid != os.getpid()


def test_an_llm_agent_of_another_class_goes_on_after_a_loss_where_it_was(rt: Runtime) -> None:
    events = run_turn(rt, "fancy: hi")
    assert author_texts(events)[-1] == ("fancy", "survived")
    assert [line for line in noted_lines() if line.startswith("model")] == ["model 0", "model 1", "model 2"]
    assert noted_lines().count("first") == 1
    assert noted_lines().count("second") == 1 + is_killed(rt, "fancy")
    session = rt.sessions.get("ada", "s1")
    assert session is not None
    assert session.state == {"said": "survived"}
    calls = [call.name for event in session.events for call in event.function_calls()]
    responses = [response.name for event in session.events for response in event.function_responses()]
    assert calls == responses == ["first_tool", "second_tool"]


def test_an_agent_with_children_goes_on_after_a_loss_and_repeats_no_child(rt: Runtime) -> None:
    log().write_text("")
    events = run_turn(rt, "pair: hi", session_id="s3")
    assert [(author, text) for author, text in author_texts(events) if text] == [("seeker", "I have a"), ("writer", "I have b")]
    assert [line for line in noted_lines() if line.startswith("look up")] == ["look up a", "look up b"]
    assert len([line for line in noted_lines() if line.startswith("model")]) == 4
    # It is killed after each of them, and begins again with what they have said.
    ends = [noted_lines().count(f"after {child}") for child in ("seeker", "writer")]
    assert ends == ([3, 2] if is_killed(rt, "pair") else [1, 1])
    assert stored_state(rt, "s3") == {"found": "I have a"}


def test_an_agent_delegates(rt: Runtime) -> None:
    texts = author_texts(run_turn(rt, "chief: hi", session_id="s2"))
    assert texts[-1][0] == "chief"
    assert "I did it." in texts[-1][1]


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_graph_asks_a_person_and_goes_on_with_the_answer(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    log().unlink(missing_ok=True)
    if engine == "ray":
        request.getfixturevalue("local_ray")
    adapted = from_adk(graph, islands=True)
    with Deploy(engine, tmp_path)(adapted.root_agent, app_name="graph") as rt:
        events = run_turn(rt, "the letter")
        call = next(call for event in events for call in event.function_calls())
        assert [open_call.call_id for open_call in rt.pending(session_id="s1", user_id="ada")] == [call.id]
        response = FunctionResponse(id=call.id, name=call.name, response={"result": "yes"})
        answered = run_turn(rt, Content(role="user", parts=[Part(function_response=response)]))
        assert author_texts(answered)[-1][1].startswith("sent: ")
        assert "yes" in author_texts(answered)[-1][1]
        assert stored_state(rt) == {"sent": True}
        assert noted_lines().count("draft") == 1
        assert noted_lines().count("send") == 1 + is_killed(rt, "graph")
        # A second turn begins the graph anew.
        assert next(call for event in run_turn(rt, "the other") for call in event.function_calls()).name == call.name
        assert noted_lines().count("draft") == 2


def test_without_islands_it_is_refused() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"agent 'graph': OwnWorkflow is a graph that runs in a way of its own, .* Runtime\(…, islands=True\)",
    ):
        from_adk(graph)
