"""Names that ADK's tests import, and that the installed ADK no longer has: its tests are of an earlier version.

Helpers that tests look at events with are given here. Any other name stands for itself only, so that a file can be imported; the
tests that use it fail with ADK as well, and are not counted.
"""

from __future__ import annotations

import importlib
from typing import Any

from google.adk.events.event import Event

HITL = "google.adk.workflow.utils._workflow_hitl_utils"
REQUEST_INPUT = "adk_request_input"
REQUEST_CREDENTIAL = "adk_request_credential"


def _calls(event: Event, name: str) -> list[Any]:
    return [call for call in event.get_function_calls() if call.name == name]


def has_request_input_function_call(event: Event) -> bool:
    """True for an event that asks for input."""
    return bool(_calls(event, REQUEST_INPUT))


def has_auth_request_function_call(event: Event) -> bool:
    """True for an event that asks for a credential."""
    return bool(_calls(event, REQUEST_CREDENTIAL))


def get_request_input_interrupt_ids(event: Event) -> list[str]:
    """The ids of an event's questions."""
    return [call.id for call in _calls(event, REQUEST_INPUT)]


def _gone(*_: Any, **__: Any) -> None:
    raise NotImplementedError("the installed ADK does not have this function")


GIVEN = {
    (HITL, "has_request_input_function_call"): has_request_input_function_call,
    (HITL, "has_auth_request_function_call"): has_auth_request_function_call,
    (HITL, "get_request_input_interrupt_ids"): get_request_input_interrupt_ids,
    (HITL, "REQUEST_CREDENTIAL_FUNCTION_CALL_NAME"): REQUEST_CREDENTIAL,
    ("google.adk.workflow._function_node", "_get_type_hints_cached"): _gone,
    ("google.adk.workflow._function_node", "_get_type_hints_for_unwrapped"): _gone,
    ("google.adk.flows.llm_flows.base_llm_flow", "_ReconnectSentinel"): _gone,
}


def give() -> None:
    """Give the modules of ADK the names that they lack."""
    for (module, name), value in GIVEN.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        if not hasattr(found, name):
            setattr(found, name, value)
