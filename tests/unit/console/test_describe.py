"""`raygrove describe`: what it prints of a turn, over a Runtime in this process; and events in a few words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import (
    Blob,
    Content,
    Event,
    EventActions,
    FileData,
    FlowMark,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    Part,
    TaskChange,
    TaskNode,
    tool,
)
from actors.errors import AgentFailedError, RequestError
from actors.layers.limiter.messages import ModelWait
from actors.layers.listing.messages import LiveRun, PendingCall
from actors.messages.content import CodeExecutionResult, ExecutableCode
from actors.messages.event import Usage
from actors.messages.llm import LlmResponse
from actors.messages.turn_info import LostProcess, TurnInfo
from actors.testing import Reply, ScriptedModel, reply_parts
from runtime import Runtime, Settings
from runtime.driver.operation import local_time
from runtime.driver.turns.description import AgentShare, OpenToolCall, TurnDescription
from runtime.frontends.console.lines import event_lines, turn_lines
from tests.support.console import have_joined, invoke
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
        have_joined(monkeypatch, rt, "test")
        yield rt


def raygrove(*arguments: str) -> str:
    return invoke(*arguments).output


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
    assert "  error:      ValueError: no such key\n    Traceback" in said
    assert "failed: ValueError: no such key" in said
    assert "attempt 1: ScriptedModel: ValueError: no such key" in said


def test_a_turn_that_was_not_recorded_and_a_session_without_turns_say_so(rt: Runtime) -> None:
    rt.sessions.create("ada", "empty")
    with pytest.raises(RequestError, match="session 'empty' has no turn yet"):
        raygrove("describe", "test", "empty")


def test_a_turn_that_runs_is_told_in_lines() -> None:
    turn = TurnInfo(
        user_id="ada",
        session_id="s1",
        invocation_id="e-1",
        state="running",
        agent="root",
        first_seq=3,
        last_seq=7,
        epoch=2,
        begun_s=1000.0,
        lost=(LostProcess(agent="root", lost_s=1020.0, reason="killed"), LostProcess(lost_s=1030.0)),
    )
    call = PendingCall(user_id="ada", session_id="s1", invocation_id="e-1", call_id="c", name="pay", asked_s=1050.0)
    share = AgentShare(agent="root", events=4, tool_calls=2, failed_tools=1, first_s=1010.0, last_s=1050.0)
    described = TurnDescription(
        turn=turn,
        message="where\nis 42",
        agents=[share],
        runs=[LiveRun(agent="root", begun_s=1000.0), LiveRun(agent="x", branch="all.x", asked_by="root", has_process=False)],
        tool_calls=[OpenToolCall(call_id="d", name="look_up", args={"order": "42"}, agent="root", called_s=1060.0)],
        model_waits=[ModelWait(model="gemini", before=3, running=8, waiting_s=12.0, failed_attempts=1, repeats_in_s=4.0)],
        pending=[call],
        losses={"root": 1, "": 1},
    )
    lines = list(turn_lines(described, now_s=1100.0))
    assert lines[:2] == ["turn e-1 of session 's1' of user 'ada': running", "  message:    where is 42"]
    told = [line.split(":", 1)[0].strip() for line in lines[2:]]
    assert told == ["began", "events", "epoch", "lost", "lost", "runs", "runs", "tool", "model", "waits for", "agent"]
    said = "\n".join(lines)
    for text in (
        ", 1m 40s ago",
        "3 to 7 of the session's log",
        "2: one more for each pause, retry or loss of the Runner",
        f"a process of root, at {local_time(1020.0)}: killed\n",
        f"the turn's Runner, or the deployment, at {local_time(1030.0)}\n",
        "root, for 1m 40s",
        "asked by root, on branch all.x, waits for a process",
        'look_up(order="42") of root, for 40s (call d)',
        "gemini is at its limit: waits for 12s, 3 calls before it, 8 run; it has failed 1 times, and is repeated in 4s",
        ": c pay()",
        "root: 4 events, 2 calls (1 failed); from ",
    ):
        assert text in said
    waiting = TurnDescription(turn=TurnInfo(user_id="a", session_id="s", invocation_id="e", state="waiting"), turns_before=1)
    assert list(turn_lines(waiting))[1:] == ["  waits for:  1 turn of its session"]


def of(*parts: Part, **actions: object) -> list[tuple[str, str]]:
    return list(event_lines(Event(content=Content(parts=parts), actions=EventActions(**actions))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (Part(text="hello"), ("text", "hello")),
        (Part(text="hm", thought=True), ("thought", "hm")),
        (Part(function_call=FunctionCall(name="f", args={"x": 1, "y": "ä"})), ("call", 'f(x=1, y="ä")')),
        (Part(function_response=FunctionResponse(name="f", response={"result": [1]})), ("response", "f: [1]")),
        (Part(function_response=FunctionResponse(name="f", response={"a": 1})), ("response", 'f: {"a":1}')),
        (Part(inline_data=Blob(data=b"abc", mime_type="image/png")), ("data", "3 bytes of image/png")),
        (Part(executable_code=ExecutableCode(code="1 + 1")), ("call", "1 + 1")),
        (Part(code_execution_result=CodeExecutionResult(output="2")), ("response", "2")),
        (Part(file_data=FileData(file_uri="gs://b/f")), ("data", "gs://b/f")),
    ],
)
def test_each_part_is_told_by_its_kind(part: Part, told: tuple[str, str]) -> None:
    assert of(part) == [told]


def test_a_transfer_is_told_instead_of_the_response_that_carries_it_and_other_responses_beside_it() -> None:
    transfer = Part(function_response=FunctionResponse(name="transfer_to_agent", response={"result": "ok"}))
    other = Part(function_response=FunctionResponse(name="f", response={"result": 1}))
    assert of(other, transfer, transfer_to_agent="billing") == [("response", "f: 1"), ("transfer", "to billing")]


def test_a_refused_transfer_is_told_as_a_response() -> None:
    refused = Part(function_response=FunctionResponse(name="transfer_to_agent", response={"error": "no such target"}))
    assert of(refused) == [("response", 'transfer_to_agent: {"error":"no such target"}')]


def test_changes_of_state_and_rewinds_and_errors_are_told() -> None:
    actions = EventActions(state_delta={"user:name": "Ada", "old": None}, rewind_before_invocation_id="e-1")
    event = Event(actions=actions, error_code="ValueError", error_message="bad")
    assert list(event_lines(event)) == [
        ("state", 'user:name = "Ada"'),
        ("state", "old is gone"),
        ("rewind", "to before turn e-1"),
        ("error", "ValueError: bad"),
    ]


def test_an_event_that_does_nothing_is_not_told() -> None:
    assert list(event_lines(Event(author="a"))) == []


def test_what_becomes_of_tasks_and_whose_turn_it_is_are_told() -> None:
    mark = FlowMark(
        run="r",
        created=(TaskNode(name="t", objective="find it"),),
        ready=("t", "u"),
        changes={"t": TaskChange(status="successful", result="gold"), "u": TaskChange(status="failed", reason="no time")},
        turns={"a": ("t", "u")},
        ends_turn=True,
    )
    assert list(event_lines(Event(author="a", flow=mark))) == [
        ("task", "t: find it"),
        ("task", "ready: t, u"),
        ("task", 't is successful: "gold"'),
        ("task", "u is failed: no time"),
        ("turn", "a works on t, u"),
        ("turn", "a ends its turn"),
    ]
    assert list(event_lines(Event(author="a", flow=FlowMark(run="r", ends_turn=True, next_agent="b")))) == [
        ("turn", "a hands over to b")
    ]


def test_a_failure_shows_where_it_was_raised() -> None:
    event = Event(error_code="KeyError", error_message="'x'", error_traceback='  File "a.py", line 1, in f\n    return {}["x"]')
    assert list(event_lines(event)) == [
        ("error", "KeyError: 'x'"),
        ("traceback", '  File "a.py", line 1, in f'),
        ("traceback", '    return {}["x"]'),
    ]
