"""Paths of turns: what fits what, and what a comparison that fails prints."""

from __future__ import annotations

import re

import pytest

from actors.errors import DefinitionError
from actors.messages.content import Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import Event, EventActions
from runtime.testing import Called, Failed, Said, Trajectory, Transferred, trajectory

HANDED_OVER = Transferred("desk", "orders")
LOOKED_UP = Called("orders", "lookup", {"order_id": "42", "fields": ["status"]}, {"status": "late"})
ANSWERED = Said("orders", "It is late, I am sorry.")
PATH = Trajectory([HANDED_OVER, LOOKED_UP, ANSWERED], {"order": "42"})


def test_a_path_is_what_it_is() -> None:
    PATH.assert_exactly(HANDED_OVER, LOOKED_UP, ANSWERED, state={"order": "42"})
    PATH.assert_exactly(
        Transferred(to="orders"), Called("orders", args={"order_id": re.compile("^4"), "fields": ["status"]}), Said()
    )
    PATH.assert_in_order(HANDED_OVER, Said(text=re.compile("sorry")))
    PATH.assert_contains(Said("orders"), Transferred("desk"), state={})
    assert PATH.agents == ["desk", "orders"]
    assert PATH.tools == ["lookup"]
    assert PATH[-1] == ANSWERED
    assert PATH[:2] == [HANDED_OVER, LOOKED_UP]


def test_a_difference_is_shown_line_by_line() -> None:
    wanted = Called("orders", "lookup", {"order_id": "43", "fields": ["status"]})
    with pytest.raises(AssertionError) as raised:
        PATH.assert_exactly(HANDED_OVER, wanted, ANSWERED, Said("desk"))
    assert str(raised.value) == (
        "the path is another one than expected (-: expected, +: happened):\n"
        "  desk   transfers to orders\n"
        "- orders calls lookup(order_id='43', fields=['status'])\n"
        "+ orders calls lookup(order_id='42', fields=['status']) -> {'status': 'late'}\n"
        "           ^ args['order_id']\n"
        "  orders says 'It is late, I am sorry.'\n"
        "- desk   says …"
    )


def test_a_step_too_many_is_shown() -> None:
    with pytest.raises(AssertionError, match=re.escape("+ orders calls lookup(order_id='42'")):
        PATH.assert_exactly(HANDED_OVER, ANSWERED)


def test_steps_in_another_order_are_shown() -> None:
    with pytest.raises(AssertionError) as raised:
        PATH.assert_in_order(ANSWERED, HANDED_OVER)
    assert "- desk   transfers to orders" in str(raised.value)
    assert "* orders says 'It is late, I am sorry.'" in str(raised.value)


def test_what_is_expected_twice_has_to_happen_twice() -> None:
    with pytest.raises(AssertionError, match="- orders says …"):
        PATH.assert_contains(Said("orders"), Said("orders"))


def test_an_open_step_leaves_room_for_an_exact_one() -> None:
    path = Trajectory([Said("a", "one"), Said("a", "two")], {})
    path.assert_contains(Said("a"), Said("a", "one"))


def test_a_state_that_differs_is_shown() -> None:
    with pytest.raises(AssertionError) as raised:
        PATH.assert_exactly(*PATH, state={"name": "Ada"})
    assert (
        str(raised.value) == "the state is another one than expected (-: expected, +: written):\n- name = 'Ada'\n+ order = '42'"
    )
    with pytest.raises(AssertionError, match="- order = '43'\n\\+ order = '42'"):
        PATH.assert_in_order(state={"order": "43"})


def test_a_list_in_place_of_steps_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is no step: write Said, Called"):
        PATH.assert_exactly([HANDED_OVER])  # type: ignore[arg-type]


def test_events_become_steps() -> None:
    events = [
        event("desk", FunctionCall(id="1", name="transfer_to_agent", args={"agent_name": "ordres"})),
        event("desk", FunctionResponse(id="1", name="transfer_to_agent", response={"error": "no such agent"})),
        event("desk", FunctionCall(id="2", name="transfer_to_agent", args={"agent_name": "orders"})),
        event("desk", FunctionResponse(id="2", name="transfer_to_agent", response={}), transfer_to_agent="orders"),
        event("orders", FunctionCall(id="3", name="ask", args={})),
        Event(author="orders", partial=True, content=Content.of_text("Wai", role="model")),
        Event(author="orders", content=Content.of_text("Wait.", role="model"), actions=EventActions(state_delta={"asked": 1})),
        Event(author="orders", actions=EventActions(transfer_to_agent="desk")),
        Event(author="desk", error_code="KeyError", error_message="'x'"),
    ]
    path = trajectory(events)
    path.assert_exactly(
        Called("desk", "transfer_to_agent", {"agent_name": "ordres"}, {"error": "no such agent"}),
        Transferred("desk", "orders"),
        Called("orders", "ask", {}, None),
        Said("orders", "Wait."),
        Transferred("orders", "desk"),
        Failed("desk", "KeyError", "'x'"),
        state={"asked": 1},
    )
    assert repr(path).splitlines()[2:] == [
        "orders calls ask() -> no answer",
        "orders says 'Wait.'",
        "orders transfers to desk",
        "desk   fails with KeyError: 'x'",
    ]
    assert repr(trajectory([])) == "(no steps)"


def event(author: str, part: FunctionCall | FunctionResponse, transfer_to_agent: str | None = None) -> Event:
    made = Part(function_call=part) if isinstance(part, FunctionCall) else Part(function_response=part)
    return Event(
        author=author, content=Content(role="model", parts=[made]), actions=EventActions(transfer_to_agent=transfer_to_agent)
    )
