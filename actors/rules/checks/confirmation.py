"""What the user's answer to a call that needs his consent means (semantics.md 5.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

CONFIRMED = "confirmed"


def refusal(tool: str, answer: Mapping[str, Any]) -> str | None:
    """Why the call is not run, told to the model; None when the user has said yes.

    Only a plain yes is one: whatever is not `{"confirmed": true}` counts as no.
    """
    confirmed = answer.get(CONFIRMED)
    if confirmed is True:
        return None
    if confirmed is False:
        return f"the user declined: {tool} was not run"
    given = msgspec.json.encode(answer).decode()
    return f'{tool} was not run: the answer has to be {{"{CONFIRMED}": true}} or {{"{CONFIRMED}": false}}, not {given}'
