"""Which turns fit what is looked for, and which calls wait for a person."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from actors import Content, Event, EventActions, FunctionCall, FunctionResponse, Part
from actors.layers.listing.messages import ANY_TURN, TurnMatch
from actors.layers.listing.rules import fits, open_calls
from actors.messages.flow import FlowMark
from actors.messages.turn_info import TurnInfo
from actors.rules.routing.branches import tool_branch

FAILED = TurnInfo(
    user_id="ada",
    session_id="s1",
    invocation_id="import-17",
    state="failed",
    agent="clerk",
    error="AgentFailedError: agent 'clerk' failed: ConnectionError: no Connection",
    failed_tools=2,
)
IN_LINE = TurnInfo(user_id="ada", session_id="s1", invocation_id="e-2", state="waiting")


@pytest.mark.parametrize(
    ("wanted", "failed", "in_line"),
    [
        (ANY_TURN, True, True),
        (TurnMatch(agent="clerk"), True, False),
        (TurnMatch(agent="cler"), False, False),
        (TurnMatch(error="no connection"), True, False),
        (TurnMatch(error="time"), False, False),
        (TurnMatch(invocation="import-"), True, False),
        (TurnMatch(invocation="17"), False, False),
        (TurnMatch(agent="clerk", error="agentfailederror", invocation="import-17"), True, False),
        (TurnMatch(agent="clerk", error="other"), False, False),
        (TurnMatch(failed_tools=True), True, False),
    ],
)
def test_a_turn_fits_when_all_that_is_given_does(wanted: TurnMatch, failed: bool, in_line: bool) -> None:
    assert (fits(FAILED, wanted), fits(IN_LINE, wanted)) == (failed, in_line)


def event(*parts: Part, branch: str | None = None, asks: Sequence[str] = (), author: str = "a") -> Event:
    return Event(
        id="e",
        invocation_id="e-1",
        author=author,
        content=Content(parts=parts),
        branch=branch,
        long_running_tool_ids=asks,
    )


def call(call_id: str) -> Part:
    return Part(function_call=FunctionCall(id=call_id, name="f"))


def answer(call_id: str, **response: str) -> Part:
    return Part(function_response=FunctionResponse(id=call_id, name="f", response=response))


def waiting(*events: Event) -> list[str | None]:
    return [open_call.call.id for open_call in open_calls(events)]


def test_long_running_calls_without_an_answer_wait_in_their_order() -> None:
    asked = event(call("c1"), call("c2"), call("c3"), asks=("c1", "c3"))
    assert waiting(asked, event(call("c4"), branch="p.b", asks=("c4",))) == ["c1", "c3", "c4"]
    assert waiting(asked, event(answer("c1"), author="user")) == ["c3"]


def test_what_a_long_running_tool_returns_is_no_answer_unless_it_is_an_error() -> None:
    asked = event(call("c1"), call("c2"), asks=("c1", "c2"))
    assert waiting(asked, event(answer("c1", status="pending"), answer("c2"))) == ["c1", "c2"]
    assert waiting(asked, event(answer("c1", error="out of reach"), answer("c2", error="x", status="pending"))) == ["c2"]
    consent = msgspec.structs.replace(asked, actions=EventActions(requested_tool_confirmations={"c1": {"confirmed": False}}))
    assert waiting(consent, event(answer("c1", paid="1"))) == ["c2"]
    in_flow = msgspec.structs.replace(asked, flow=FlowMark(run="f"))
    assert waiting(in_flow, event(answer("c1", status="pending"))) == ["c2"]


def test_no_call_below_an_agent_that_is_a_tool_waits() -> None:
    branch = tool_branch("p.b", "expert", "c1")
    assert waiting(event(call("c1"), branch="p.b"), event(call("c2"), branch=branch, asks=("c2",))) == []
    assert waiting(event(call("c3"), branch=f"{branch}.q.c", asks=("c3",))) == []
