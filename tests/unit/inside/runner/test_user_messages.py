"""Messages of users are checked before they are stored."""

from __future__ import annotations

import json

import pytest

from actors import Content, FunctionResponse, Part
from actors.errors import NotEncodableError
from actors.messages import protocol as p
from actors.messages.codec import MAX_DEPTH
from actors.messages.event import encode_event
from actors.messages.json_types import JsonValue
from actors.rules.checks.questions import REQUEST_CONFIRMATION
from actors.rules.checks.user_message import checked
from actors.runner.start import NOTHING_FOUND, PreparedMessage, user_event
from tests.support.fixtures.session_fixture import KEY


def test_an_answer_that_a_client_has_wrapped_may_be_nested_too_deep() -> None:
    deep: JsonValue = "yes"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    wrapped = {"response": json.dumps({"confirmed": True, "payload": deep})}
    given = Part(function_response=FunctionResponse(id="c1", name=REQUEST_CONFIRMATION, response=wrapped))
    prepared = PreparedMessage(NOTHING_FOUND, checked(Content(parts=[given])), answers=("c1",))
    message = p.StartTurn(key=KEY, invocation_id="e-1", content=Content.of_text("hi"))
    event = user_event(message, prepared.content, "", "e-1", None)
    with pytest.raises(NotEncodableError, match="nested deeper"):
        encode_event(event)
