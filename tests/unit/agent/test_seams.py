"""A feature joins the runs of agents: with a kind, which is a row of a table, or with an interceptor of their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from actors import BaseAgent, Content, Event, LlmAgent, LlmRequest, LlmResponse, SequentialAgent
from actors.agent.actor import AgentKind, with_callbacks
from actors.agent.invocation import Invocation
from actors.behaviours.interceptor import CallModel, RunInterceptor
from actors.definitions.spec import AgentSpec
from actors.layers.interceptors import INTERCEPTORS
from actors.layers.kinds import KINDS
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.event import decode_event
from actors.messages.protocol.runs import AnyOutcome, Finished
from actors.testing import ScriptedModel
from tests.docs.pages import blocks
from tests.support.fixtures.runner_fixture import RunnerFixture


class EchoAgent(BaseAgent):
    """Says what the user has said."""

    kind: ClassVar[str] = "echo"


async def run_echo(spec: AgentSpec, run: Invocation) -> AnyOutcome:
    """Say it, and end the run."""
    await run.emit(Event(content=Content.of_text(run.user_content.text, role="model")), is_last=True)
    return Finished()


ECHO = AgentKind(with_callbacks(run_echo), Invocation)


@pytest.mark.parametrize("is_child", [False, True])
async def test_an_agent_of_a_new_kind_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_child: bool) -> None:
    monkeypatch.setitem(cast(dict[str, Any], KINDS), "echo", ECHO)
    echo = EchoAgent(name="echo", before_agent_callback=lambda callback_context: None)
    fixture = RunnerFixture(SequentialAgent(name="root", sub_agents=[echo]) if is_child else echo, tmp_path)
    events, outcome = await fixture.end(await fixture.start("hello"))
    assert [(event.author, event.text) for event in events if event.text] == [("echo", "hello")]
    assert isinstance(outcome, Finished)


class Loud(RunInterceptor):
    """Has a model say everything in capitals."""

    async def call_model(self, call: CallModel) -> LlmResponse:
        show = call.show

        async def show_loud(piece: Content | None) -> None:
            assert show is not None
            await show(_loud(piece))

        call.show = show_loud
        response = await self.next.call_model(call)
        return LlmResponse(content=_loud(response.content))


def _loud(content: Content | None) -> Content:
    return Content.of_text(content.text.upper() if content is not None else "", role="model")


class Refusing(RunInterceptor):
    """Lets no model be called."""

    async def call_model(self, call: CallModel) -> LlmResponse:
        raise PermissionError("not today")


class Streaming:
    """A model that says its answer in two pieces."""

    name = "streaming"

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        for piece in ("good ", "morning"):
            yield LlmResponse(content=Content.of_text(piece), partial=True)
        yield LlmResponse(content=Content.of_text("good morning"))


def fixture_with(root: BaseAgent, folder: Path, mine: type[RunInterceptor]) -> RunnerFixture:
    fixture = RunnerFixture(root, folder)
    environment = fixture.directory.environment
    assert environment is not None
    fixture.directory.environment = replace(environment, interceptors=(*INTERCEPTORS, mine))
    return fixture


async def test_the_interceptor_of_the_page_answers_a_slow_tool(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("python") if "class ToolTimeouts" in block.code]
    page: dict[str, Any] = {}
    exec(block.code, page)

    async def wait() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return "never"

    agent = LlmAgent(name="root", model=ScriptedModel([{"call": "wait"}, "done"]), tools=[wait])
    events, outcome = await fixture_with(agent, tmp_path, page["ToolTimeouts"]).run()
    assert isinstance(outcome, p.Finished)
    (answer,) = [response for event in events for response in event.function_responses()]
    assert answer.response == {"error": "wait took too long"}


async def test_an_interceptor_changes_a_response_and_its_pieces(tmp_path: Path) -> None:
    fixture = fixture_with(LlmAgent(name="root", model=Streaming()), tmp_path, Loud)
    await fixture.start(subscriber="driver", config=RunConfig(streaming="sse"))
    said: list[tuple[bool, str]] = []
    ended, ack = False, 0
    while not ended:
        news = await fixture.session.ask(p.Poll(subscriber="driver", ack=ack))
        ack = news.number
        for turn in news.turns:
            said += [(bool(event.partial), event.text) for event in (decode_event(each.raw, each.seq) for each in turn.events)]
            ended = turn.outcome is not None
    assert "".join(text for partial, text in said if partial) == "GOOD MORNING"
    assert said[-1] == (False, "GOOD MORNING")


async def test_an_error_of_an_interceptor_is_no_error_of_the_model(tmp_path: Path) -> None:
    asked: list[BaseException] = []
    agent = LlmAgent(
        name="root",
        model=ScriptedModel(["hello"]),
        on_model_error_callback=lambda callback_context, llm_request, error: asked.append(error),
    )
    _, outcome = await fixture_with(agent, tmp_path, Refusing).run()
    assert isinstance(outcome, p.Failed)
    assert (outcome.error_code, asked) == ("PermissionError", [])
