"""Credentials that tools ask for, as ADK's clients know them: a call beside the call, whose answer is the answer to that."""

from __future__ import annotations

from actors import Event, EventActions, FunctionResponse, Part
from actors.layers.listing.messages import PendingCall
from actors.messages.event import RequestedInput
from runtime.frontends.web.adk.events import adk_events, answered
from tests.support.fixtures.log_events import call, event

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
