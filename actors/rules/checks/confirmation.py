"""What the user's answer to a call that needs confirmation means (semantics.md 5.6)."""

from __future__ import annotations

import msgspec

from actors.messages.json_types import JsonMapping

CONFIRMED = "confirmed"


def refusal(tool: str, answer: JsonMapping) -> str | None:
    """Why the call is not run, in words for the model; None when the user has agreed.

    Only `{"confirmed": true}` is an agreement; every other answer is a refusal.
    """
    confirmed = answer.get(CONFIRMED)
    if confirmed is True:
        return None
    if confirmed is False:
        return f"the user declined: {tool} was not run"
    given = msgspec.json.encode(answer).decode()
    return f'{tool} was not run: the answer has to be {{"{CONFIRMED}": true}} or {{"{CONFIRMED}": false}}, not {given}'
