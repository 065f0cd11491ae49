"""Tests of the desk. All of them share one Runtime, and each has a session of its own."""

from collections.abc import Callable
from typing import Any

import pytest

from raygrove import Runtime
from raygrove.errors import AgentFailedError
from raygrove.testing import Called, Said, Transferred, trajectory

pytestmark = pytest.mark.raygrove(scope="module", timeout=30)

LOOK_UP = {"call": "lookup_order", "args": {"order_id": "42"}}


def test_an_invoice_goes_to_billing(runtime: Runtime, script: Callable[..., Any]) -> None:
    model = script({"transfer": "billing"}, "It is paid.")
    turn = runtime.run(user_id="ada", session_id="invoice", message="My invoice?")
    trajectory(turn).assert_exactly(Transferred("desk", "billing"), Said("billing", "It is paid."))
    assert [request.agent for request in model.requests] == ["desk", "billing"]


def test_an_order_is_looked_up(runtime: Runtime, script: Callable[..., Any]) -> None:
    script({"transfer": "orders"}, LOOK_UP, "It is late, I am sorry.")
    path = trajectory(runtime.run(user_id="ada", session_id="order", message="Where is order 42?"))
    path.assert_in_order(Called("orders", "lookup_order", {"order_id": "42"}), Said("orders"), state={"order": "42"})


def test_the_agent_that_spoke_last_goes_on(runtime: Runtime, script: Callable[..., Any]) -> None:
    script({"transfer": "orders"}, "Which one?", LOOK_UP, "It is late.")
    runtime.run(user_id="ada", session_id="goes-on", message="Where is my order?").result()
    turn = runtime.run(user_id="ada", session_id="goes-on", message="42")
    assert turn.agent == "orders"
    trajectory(turn).assert_contains(Called(tool="lookup_order", result={"status": "late"}))


def test_an_unknown_order_is_no_reason_to_fail(runtime: Runtime, script: Callable[..., Any]) -> None:
    script({"transfer": "orders"}, {"call": "lookup_order", "args": {"order_id": "7"}}, "I cannot find it.")
    path = trajectory(runtime.run(user_id="ada", session_id="unknown", message="Where is order 7?"))
    assert path.agents == ["desk", "orders"]
    assert path.state == {}


def test_a_model_that_fails_fails_the_turn(runtime: Runtime, script: Callable[..., Any]) -> None:
    script(ConnectionError("the service is away"))
    with pytest.raises(AgentFailedError, match="the service is away"):
        runtime.run(user_id="ada", session_id="away", message="hello").result()
