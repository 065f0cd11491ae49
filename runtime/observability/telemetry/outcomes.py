"""Outcomes and answers as the conventions for generative AI tell them: the type of an error, the tokens of a call."""

from __future__ import annotations

from actors.messages.event import Usage
from actors.messages.protocol.outcomes import AnyOutcome, Cancelled, Failed


def error_type(outcome: AnyOutcome) -> str:
    """The type of an outcome's error, by its error code; "" for none."""
    if isinstance(outcome, Failed):
        return outcome.error_code or "_OTHER"
    return "timeout" if isinstance(outcome, Cancelled) and outcome.timeout_s is not None else ""


def token_counts(usage: Usage) -> tuple[int, int]:
    """The tokens that a model call was given, and those that it has said, thoughts included."""
    given = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    return given, (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
