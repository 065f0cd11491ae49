"""Branches of tools, and of agents that work for the calls of others (semantics.md section 8)."""

from __future__ import annotations

import pytest

from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import Event
from actors.messages.graph import NodeInfo
from actors.messages.topology import GRAPH, SINGLE_TURN, TASK, AgentNode, Topology
from actors.rules.prompt.history import History
from actors.rules.routing.branches import delegate_branch, is_visible, tool_branch, tool_root
from actors.rules.routing.resumption import entry
from actors.rules.routing.selection import select_agent
from actors.rules.routing.transfer import route_refusal, transfer_targets

TREE = Topology.of(
    [
        AgentNode(name="boss", children=("other", "planner", "shop"), delegates=("planner", "shop")),
        AgentNode(name="other", parent="boss"),
        AgentNode(name="planner", parent="boss", mode=TASK, children=("expert", "clerk"), delegates=("clerk",)),
        AgentNode(name="shop", parent="boss", kind=GRAPH),
        AgentNode(name="expert", parent="planner"),
        AgentNode(name="clerk", parent="planner", mode=SINGLE_TURN),
    ]
)


@pytest.mark.parametrize(
    ("agent", "targets"),
    [("boss", ["other"]), ("other", ["boss"]), ("planner", ["expert"]), ("expert", ["planner"]), ("clerk", [])],
)
def test_a_delegate_is_no_target_and_has_none_above_it(agent: str, targets: list[str]) -> None:
    assert [target.name for target in transfer_targets(TREE, agent)] == targets


def test_a_transfer_reaches_no_delegate_from_outside() -> None:
    refusal = "'planner' works for the calls of 'boss', and takes no conversation over"
    assert route_refusal(TREE, "planner", None) == route_refusal(TREE, "expert", None) == refusal
    assert route_refusal(TREE, "other", None) is None
    assert route_refusal(TREE, "expert", "planner") is None
    assert "'clerk' works for the calls of 'planner'" in (route_refusal(TREE, "clerk", "planner") or "")


@pytest.mark.parametrize("author", ["planner", "expert", "clerk", "shop"])
def test_the_conversation_stays_with_the_agent_that_delegates(author: str) -> None:
    assert select_agent(TREE, [author, "other"]).agent == "other"


def test_an_answer_goes_through_the_agents_that_have_called() -> None:
    assert [entry(TREE, caller) for caller in ("shop", "planner", "expert", "clerk", "other")] == ["boss"] * 4 + ["other"]
    assert entry(TREE, "clerk", scope="planner") == "planner"


def said(author: str, part: Part, *, branch: str | None = None, path: str = "boss@1") -> Event:
    role = "user" if author == "user" else "model"
    return Event(author=author, branch=branch, node_info=NodeInfo(path=path), content=Content(role=role, parts=[part]))


@pytest.mark.parametrize("call_id", ["call-1", "call.1/2"])
@pytest.mark.parametrize("agent", ["boss", "other"])
def test_what_is_said_for_a_call_is_seen_by_neither_its_agent_nor_others(call_id: str, agent: str) -> None:
    branch = delegate_branch(None, "shop", call_id)
    history = History(agent, warn=pytest.fail)
    call = Part(function_call=FunctionCall(id=call_id, name="shop", args={}))
    result = Part(function_response=FunctionResponse(id=call_id, name="shop", response={"result": 1}))
    question = Part(function_call=FunctionCall(id="q", name="adk_request_input", args={}))
    reply = Part(function_response=FunctionResponse(id="q", name="adk_request_input", response={"result": 1}))
    for event in (
        said("boss", call),
        said("shop", question, branch=branch, path="boss@1/shop@x/n@1"),
        Event(author="user", content=Content(role="user", parts=[reply])),
        said("user", Part(text="words"), path="boss@1/shop@x"),
        said("boss", result),
    ):
        history.add(event)
    assert len(history.contents()) == 2


@pytest.mark.parametrize(
    ("of_event", "reader", "visible"),
    [
        ("@a:c1", "@a:c1", True),
        ("@a:c1", "@a:c1.p.x", True),
        ("@a:c1.p.x", "@a:c1", False),
        ("@a:c1", None, False),
        ("@a:c1", "", False),
        (None, "@a:c1", False),
        ("@a:c1", "@a:c10", False),
        ("p", "p.x.@a:c1", False),
        ("p.x.@a:c1", "p.x", False),
        ("@a:c1", "@a:c1.@b:c2", False),
        ("@a:c1.@b:c2", "@a:c1", False),
        ("@a:c1.@b:c2", "@a:c1.@b:c2", True),
    ],
)
def test_what_is_on_a_tool_branch_is_seen_there_alone(of_event: str | None, reader: str | None, visible: bool) -> None:
    assert is_visible(of_event, reader) is visible


def test_a_tool_branch_stands_on_the_branch_of_whoever_asks() -> None:
    assert tool_branch(None, "a", "c1") == "@a:c1"
    assert tool_branch("p.a", "a", "c.1") == "p.a.@a:c_1"
    assert tool_root("p.a.@a:c_1.q.b") == "p.a.@a:c_1"
    assert tool_root("@a:c_1") == "@a:c_1"
    assert tool_root("p.a") is None
    assert tool_root("a@1.b@2") is None
