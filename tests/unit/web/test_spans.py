"""Traces that are made of a log."""

from __future__ import annotations

from typing import Any

from actors import Content, Event
from actors.messages.event import EventActions, Usage
from actors.messages.session import Session
from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.adk.spans import spans_of

AGENTS = {
    each.name: each
    for each in (
        AgentInfo(name="pipeline", kind="sequential"),
        AgentInfo(name="payer", kind="llm", model="gemini", parent="pipeline"),
        AgentInfo(name="fan", kind="parallel", parent="pipeline"),
        AgentInfo(name="left", kind="llm", model="gemini", parent="fan"),
        AgentInfo(name="right", kind="custom", parent="fan"),
    )
}
CALL = {"functionCall": {"id": "c1", "name": "refund", "args": {}}}
RESPONSE = {"functionResponse": {"id": "c1", "name": "refund", "response": {"ok": True}}}


def event(seq: int, author: str, at_s: float, *parts: dict[str, Any], **fields: Any) -> Event:
    content = Content.from_dict({"role": "model", "parts": list(parts)}) if parts else None
    return Event(id=f"e{seq}", invocation_id="i", seq=seq, author=author, timestamp=1000 + at_s, content=content, **fields)


def traced(*events: Event) -> dict[str, dict[str, Any]]:
    """The spans, by name; those of the same name are numbered."""
    found: dict[str, dict[str, Any]] = {}
    for span in spans_of(Session(app_name="desk", user_id="ada", id="s", events=events), AGENTS):
        name, number = span["name"], 2
        while name in found:
            name, number = f"{span['name']} {number}", number + 1
        found[name] = span
    by_id = {span["span_id"]: span for span in found.values()}
    assert len(by_id) == len(found)
    for span in found.values():
        # What the page demands of every span.
        assert isinstance(span["trace_id"], str)
        assert span["end_time"] >= span["start_time"] > 0
        assert span["logs"] == []
        parent = by_id.get(span["parent_span_id"])
        assert (parent is None) == (span["name"] == "invocation")
        attributes = span["attributes"]
        assert None not in attributes.values()
        assert {"gen_ai.conversation.id", "gcp.vertex.agent.invocation_id"} <= set(attributes)
        if attributes.get("gen_ai.operation.name") == "generate_content":
            assert isinstance(attributes["gcp.vertex.agent.event_id"], str)
    return found


def times(span: dict[str, Any]) -> tuple[float, float]:
    return round(span["start_time"] / 1e9 - 1000, 3), round(span["end_time"] / 1e9 - 1000, 3)


def test_a_turn_that_waited_for_its_user() -> None:
    found = traced(
        event(1, "user", 0, {"text": "a refund"}),
        event(2, "payer", 2, CALL, long_running_tool_ids=["c1"], usage=Usage(prompt_token_count=7), finish_reason="STOP"),
        event(3, "user", 60, RESPONSE),
        event(4, "payer", 61, RESPONSE, actions=EventActions(state_delta={"paid": 1})),
        event(5, "payer", 63, {"text": "Done."}),
    )
    assert {name: times(span) for name, span in found.items()} == {
        "invocation": (0, 63),
        "wait for the user: refund": (2, 60),
        "invoke_agent pipeline": (0, 2),
        "invoke_agent pipeline 2": (60, 63),
        "invoke_agent payer": (0, 2),
        "generate_content gemini": (0, 2),
        "invoke_agent payer 2": (60, 63),
        "execute_tool refund": (60, 61),
        "generate_content gemini 2": (61, 63),
    }
    answer = found["generate_content gemini"]
    assert answer["parent_span_id"] == found["invoke_agent payer"]["span_id"]
    assert answer["attributes"]["gen_ai.usage.input_tokens"] == 7
    assert "gen_ai.usage.output_tokens" not in answer["attributes"]
    assert answer["attributes"]["gen_ai.response.finish_reasons"] == ["STOP"]
    assert found["invoke_agent payer"]["parent_span_id"] == found["invoke_agent pipeline"]["span_id"]
    assert found["invoke_agent payer 2"]["attributes"]["gcp.vertex.agent.associated_event_ids"] == ["e4", "e5"]


def test_branches_run_beside_each_other_inside_of_their_workflow() -> None:
    found = traced(
        event(1, "user", 0, {"text": "go"}),
        event(2, "fan", 1),
        event(3, "left", 3, {"text": "l"}, branch="fan.left"),
        event(4, "right", 9, {"text": "r"}, branch="fan.right"),
        event(5, "left", 4, {"text": "l"}, branch="fan.left"),
        event(6, "left", 5, branch="fan.left", error_code="KeyError"),
    )
    assert times(found["invoke_agent left"]) == (1, 5)
    assert times(found["invoke_agent right"]) == (1, 9)
    assert times(found["invoke_agent fan"]) == times(found["invoke_agent pipeline"]) == (1, 9)
    assert found["invoke_agent fan"]["parent_span_id"] == found["invoke_agent pipeline"]["span_id"]
    assert found["invoke_agent left"]["attributes"]["error.type"] == "KeyError"
    # A custom agent has no model.
    assert sorted(name for name in found if name.startswith("generate")) == [
        "generate_content gemini",
        "generate_content gemini 2",
    ]


def test_clocks_of_two_machines_may_differ_and_agents_may_be_gone() -> None:
    found = traced(event(1, "user", 5, {"text": "go"}), event(2, "gone", 3, {"text": "earlier"}))
    assert times(found["invoke_agent gone"]) == (5, 5)
    assert spans_of(Session(app_name="desk", user_id="ada", id="s"), AGENTS) == []
