"""Calls that wait for a person, as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec

from actors.layers.listing.messages import PendingCall


def question(call: PendingCall) -> str:
    """The call, with its arguments; and what it asks in its middle."""
    arguments = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.args.items())
    asked = call.question
    if asked is None:
        return f"{call.name}({arguments})"
    return f"{call.name}({arguments}) asks {asked.get('message') or msgspec.json.encode(asked).decode()!r}"


def how_to_answer(calls: Sequence[PendingCall], path: str, options: Mapping[str, str | bool | Sequence[str] | None]) -> list[str]:
    """The question for which a paused turn waits, and the command that answers it.

    Args:
        calls: those that wait; none where an agent waits for the user's words.
        options: of the command that paused, which find the session again.
    """
    lines = []
    for call in calls:
        wants = (
            "must be confirmed" if call.is_confirmation else "waits for an answer" if call.question else "waits for its result"
        )
        lines.append(f"paused: {question(call)} of agent {call.agent!r} {wants}. Answer it with")
    words = ["raygrove", "run", path]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value:
            words += [word for each in ([value] if isinstance(value, str) else value) for word in (f"--{name}", each)]
    if not calls:
        return ["paused: an agent waits for your next message. Give it with", f"  {shlex.join(words)} MESSAGE"]
    for call in calls:
        given = "true" if call.is_confirmation else '{"action": "accept", "content": {}}' if call.question else "{}"
        words += ["--answer", f"{call.call_id}={given}"]
    return [*lines, "  " + shlex.join(words)]
