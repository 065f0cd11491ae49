"""Which messages of users are checked before they are stored."""

from __future__ import annotations

import json

import msgspec
import pytest

from actors import Content, FunctionResponse, Part
from actors.definitions.tools.context import Actions
from actors.errors import NotEncodableError
from actors.messages import protocol as p
from actors.messages.codec import MAX_DEPTH, encode, encode_event
from actors.messages.config import RunConfig
from actors.messages.json_types import JsonValue
from actors.rules.checks.confirmation import REQUEST_CONFIRMATION
from actors.rules.checks.user_message import checked
from actors.runner.turns.user_message import NOTHING_FOUND, PreparedMessage, needs_check, user_event
from tests.support.fixtures.session_fixture import KEY

PLAIN = PreparedMessage(NOTHING_FOUND, checked(Content.of_text("hi")))


def asked(**more: object) -> p.StartTurn:
    return p.StartTurn(key=KEY, invocation_id="e-1", content=Content.of_text("hi"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "prepared", "is_checked"),
    [
        (asked(), PLAIN, False),
        (asked(), msgspec.structs.replace(PLAIN, answers=("c1",)), True),
        (asked(), msgspec.structs.replace(PLAIN, actions=Actions()), True),
        (asked(state_delta={"mood": "good"}), PLAIN, True),
        (asked(config=RunConfig(custom_metadata={"from": "the web"})), PLAIN, True),
        (asked(fingerprint="abc"), PLAIN, True),
    ],
)
def test_all_but_plain_messages_are_checked(message: p.StartTurn, prepared: PreparedMessage, is_checked: bool) -> None:
    event = user_event(message, prepared.content, "", "e-1", prepared.actions)
    assert needs_check(event, prepared) is is_checked
    assert encode(event) == encode_event(event)


def test_an_answer_that_a_client_has_wrapped_may_be_nested_too_deep() -> None:
    deep: JsonValue = "yes"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    wrapped = {"response": json.dumps({"confirmed": True, "payload": deep})}
    given = Part(function_response=FunctionResponse(id="c1", name=REQUEST_CONFIRMATION, response=wrapped))
    prepared = PreparedMessage(NOTHING_FOUND, checked(Content(parts=[given])), answers=("c1",))
    event = user_event(asked(), prepared.content, "", "e-1", None)
    assert needs_check(event, prepared)
    with pytest.raises(NotEncodableError, match="nested deeper"):
        encode_event(event)
