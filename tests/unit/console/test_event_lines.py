"""Events in a few words."""

from __future__ import annotations

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
    Part,
    TaskChange,
    TaskNode,
)
from actors.messages.content import CodeExecutionResult, ExecutableCode
from runtime.frontends.console.lines import event_lines


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
