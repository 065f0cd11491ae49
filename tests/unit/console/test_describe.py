"""`raygrove describe`: what it prints of a turn, over a Runtime in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors import LlmAgent, tool
from actors.errors import AgentFailedError, RequestError
from actors.messages.content import Content
from actors.messages.event import Usage
from actors.messages.llm.model import LlmResponse
from actors.testing import ScriptedModel
from actors.testing.models import Reply, reply_parts
from runtime import Runtime, Settings
from runtime.frontends.console import cli, joining
from tests.support.runtimes import Deploy, run_turn


@tool
def look_up(order: str) -> dict[str, str]:
    """Look up an order."""
    return {"order": order}


def answer(reply: Any) -> LlmResponse:
    """A reply with its tokens."""
    usage = Usage(prompt_token_count=12, candidates_token_count=3, total_token_count=15)
    return LlmResponse(content=Content(role="model", parts=reply_parts(reply)[0]), usage=usage)


@pytest.fixture
def rt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    replies: list[Reply] = [answer({"call": "look_up", "args": {"order": "42"}}), answer("late"), ValueError("no such key")]
    root = LlmAgent(
        name="root",
        instruction="Be kind.\nBe brief.",
        model=ScriptedModel(replies),
        tools=[look_up],
        generate_content_config={"temperature": 0.5},
    )
    with Deploy("local", tmp_path)(root, settings=Settings(record_requests=1.0)) as rt:

        @contextmanager
        def joined(name: str, address: str | None) -> Iterator[Runtime]:
            yield rt

        monkeypatch.setattr(joining, "joined", joined)
        yield rt


def raygrove(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_what_models_were_asked_is_printed(rt: Runtime) -> None:
    run_turn(rt, "where is 42", invocation_id="e-1")
    said = raygrove("describe", "test", "s1", "--requests")
    assert said.startswith("turn e-1 of session 's1' of user 'ada': finished\n")
    assert "model call 1: root asked ScriptedModel at " in said
    assert "12 tokens in, 3 out" in said
    for line in (
        "  attempt 1: ScriptedModel",
        "  instruction:\n    Be kind.\n    Be brief.\n",
        '  config: {"temperature":0.5}',
        "  tool look_up: Look up an order. {",
        "  content 1, user, text: where is 42",
        '  content 2, model, call: look_up(order="42")',
        '  content 3, user, response: look_up: {"order":"42"}',
    ):
        assert line in said
    [told] = [json.loads(line) for line in raygrove("describe", "test", "s1", "e-1", "--requests", "--json").splitlines()]
    assert told["turn"]["state"] == "finished"
    assert [len(call["request"]["contents"]) for call in told["requests"]] == [1, 3]
    assert "requests" not in json.loads(raygrove("describe", "test", "s1", "--json"))


def test_a_turn_that_failed_says_why(rt: Runtime) -> None:
    run_turn(rt, "where is 42")
    with pytest.raises(AgentFailedError):
        run_turn(rt, "and now", invocation_id="e-2")
    said = raygrove("describe", "test", "s1", "--requests")
    assert "turn e-2 of session 's1' of user 'ada': failed" in said
    assert "error: ValueError: no such key" in said
    assert "failed: ValueError: no such key" in said
    assert "attempt 1: ScriptedModel: ValueError: no such key" in said


def test_a_turn_that_was_not_recorded_and_a_session_without_turns_say_so(rt: Runtime) -> None:
    rt.sessions.create("ada", "empty")
    with pytest.raises(RequestError, match="session 'empty' has no turn yet"):
        raygrove("describe", "test", "empty")
