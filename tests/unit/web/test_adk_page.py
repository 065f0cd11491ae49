"""The page of ADK: what of a tree it draws, traces that are made of a log, and credentials that tools ask for."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from actors import Content, Event, EventActions, FunctionResponse, Part
from actors.layers.listing.messages import PendingCall
from actors.messages.event import RequestedInput, Usage
from actors.messages.session import Session
from runtime.driver.services.outline import AgentInfo
from runtime.frontends.web.adk.events import adk_events, answered
from runtime.frontends.web.adk.spans import spans_of
from runtime.frontends.web.adk.tree_graphs import dot_of, tree_part
from tests.support.fixtures.log_events import call, event


def agent(name: str, *children: AgentInfo, kind: str = "llm", tools: tuple[str, ...] = ()) -> AgentInfo:
    below = [msgspec.structs.replace(child, parent=name) for child in children]
    return AgentInfo(name=name, kind=kind, tools=tools, children=below)


def tree(children: int, grandchildren: int) -> AgentInfo:
    below = [agent(f"a{i}", *(agent(f"a{i}_{j}") for j in range(grandchildren))) for i in range(children)]
    return agent("root", *below)


def test_a_small_tree_is_drawn_whole_with_its_tools() -> None:
    part = tree_part(agent("root", agent("billing", tools=("pay", 'say "hi"')), tools=("pay",)))
    assert (list(part.agents), part.tools) == (["root", "billing"], {"root": ["pay"], "billing": ["pay", 'say "hi"']})
    # A tool that two agents have is one node.
    assert part.size() == 4
    drawn = dot_of(part, marked={"billing", "pay"})
    assert '"root" -> "billing"' in drawn
    assert '"billing" -> "say \\"hi\\"" [style="dashed"]' in drawn
    assert len(re.findall("fillcolor=.#0F5223", drawn)) == 2
    assert dot_of(part) != dot_of(part, dark=True)


def test_upper_levels_come_first_and_what_is_left_out_is_counted() -> None:
    part = tree_part(tree(3, 4), limit=8)
    assert part.size() <= 8
    assert {"root", "a0", "a1", "a2"} <= set(part.agents)
    shown = len(part.agents)
    assert sum(part.hidden.values()) == 16 - shown
    assert "… 4 more" in dot_of(part)


def test_agents_of_the_session_come_before_all_others_with_those_above_them() -> None:
    part = tree_part(tree(1000, 9), ["user", "a999_8"], limit=20)
    assert list(part.agents)[:3] == ["root", "a999", "a999_8"]
    assert part.size() <= 20
    assert part.hidden["a999"] == 8
    assert sum(part.hidden.values()) + len(part.agents) == 10_001
    assert f"… {part.hidden['root']:,} more" in dot_of(part)


def test_an_agent_of_many_tools_has_room_too() -> None:
    part = tree_part(agent("root", agent("billing"), tools=tuple(f"t{i}" for i in range(600))), limit=50)
    assert part.size() <= 50
    assert "tools more" in dot_of(part)


def test_a_tree_may_be_deep() -> None:
    deep = agent("a600")
    for level in reversed(range(600)):
        deep = agent(f"a{level}", deep)
    part = tree_part(deep)
    assert (part.size(), part.hidden) == (500, {"a498": 102})
    assert part.levels()["a498"] == 498


def test_workflows_are_numbered() -> None:
    drawn = dot_of(tree_part(agent("steps", agent("first"), agent("second"), kind="sequential")))
    assert '"steps" -> "second" [label="2"]' in drawn
    assert "steps\\n(sequential)" in drawn


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


def logged(seq: int, author: str, at_s: float, *parts: dict[str, Any], **fields: Any) -> Event:
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
        logged(1, "user", 0, {"text": "a refund"}),
        logged(2, "payer", 2, CALL, long_running_tool_ids=["c1"], usage=Usage(prompt_token_count=7), finish_reason="STOP"),
        logged(3, "user", 60, RESPONSE),
        logged(4, "payer", 61, RESPONSE, actions=EventActions(state_delta={"paid": 1})),
        logged(5, "payer", 63, {"text": "Done."}),
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
        logged(1, "user", 0, {"text": "go"}),
        logged(2, "fan", 1),
        logged(3, "left", 3, {"text": "l"}, branch="fan.left"),
        logged(4, "right", 9, {"text": "r"}, branch="fan.right"),
        logged(5, "left", 4, {"text": "l"}, branch="fan.left"),
        logged(6, "left", 5, branch="fan.left", error_code="KeyError"),
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
    found = traced(logged(1, "user", 5, {"text": "go"}), logged(2, "gone", 3, {"text": "earlier"}))
    assert times(found["invoke_agent gone"]) == (5, 5)
    assert spans_of(Session(app_name="desk", user_id="ada", id="s"), AGENTS) == []


CONFIG = {"credentialKey": "k", "authScheme": {"type": "apiKey"}}
ASKED = Event(
    author="me",
    actions=EventActions(requested_inputs={"c1": RequestedInput(question={"message": "a key", "authConfig": CONFIG})}),
)


def test_a_tool_that_asks_for_a_credential_is_shown_by_a_call_beside_its_own() -> None:
    given = Part(function_response=FunctionResponse(id="c1", name="read", response={"api_key": "x"}))
    _, asks, asked, answer = adk_events([event("me", call("c1", "read")), ASKED, event("user", given)], for_operator=True)
    assert asked["actions"]["requestedAuthConfigs"] == {"c1": CONFIG}
    assert asks["content"]["parts"] == [
        {
            "functionCall": {
                "id": "c1:credential",
                "name": "adk_request_credential",
                "args": {"functionCallId": "c1", "authConfig": CONFIG},
            }
        }
    ]
    assert asks["longRunningToolIds"] == ["c1:credential"]
    [part] = answer["content"]["parts"]
    assert (part["functionResponse"]["id"], part["functionResponse"]["name"]) == ("c1:credential", "adk_request_credential")


def test_an_answer_to_that_call_answers_the_call_of_the_tool() -> None:
    response = {"id": "c1:credential", "name": "adk_request_credential", "response": {"api_key": "x"}}
    pending = PendingCall(user_id="u", session_id="s", invocation_id="e", call_id="c1", name="read")
    [part] = answered({"parts": [{"functionResponse": response}]}, [pending])["parts"]
    assert part["functionResponse"] == {"id": "c1", "name": "read", "response": {"api_key": "x"}}
