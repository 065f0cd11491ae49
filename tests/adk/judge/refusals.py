"""Refusals of raygrove in google-adk's words: tests look for a word or two of them."""

from __future__ import annotations

import re

from actors.errors import InvocationNotFoundError, RequestError, UnknownFunctionCallError

WORDS = (
    (re.compile(r"has a function call"), "a message cannot contain function calls"),
    (re.compile(r"answers calls of the turns"), "function responses resolve to multiple invocations"),
    (re.compile(r"does not fit the response_schema"), "Validation failed for interrupt"),
    (re.compile(r"has digits only"), "run_id must contain non-numeric characters"),
    (re.compile(r"gives a second output"), "a node gives at most one output"),
)
"""What a sentence of raygrove says, and how google-adk says the same."""


def in_adk_words(error: RequestError) -> BaseException:
    """The refusal of a request as google-adk's, which is a ValueError; any other error as it is."""
    if isinstance(error, UnknownFunctionCallError):
        return ValueError(f"Function call not found: {error.args[0]}")
    if isinstance(error, InvocationNotFoundError):
        return ValueError(f"Invocation ID not found: {error.args[0]}")
    sentence = str(error)
    said = reworded(sentence)
    return error if said == sentence else ValueError(said)


def reworded(sentence: str) -> str:
    """A sentence, with google-adk's words for it before it if there are any."""
    return next((f"{theirs}: {sentence}" for ours, theirs in WORDS if ours.search(sentence)), sentence)
