"""Checks what users pass to a turn or a session: messages and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.errors import InvalidMessageError, NotEncodableError
from actors.messages.codec import from_plain
from actors.messages.content import Content, plain_of_genai
from actors.messages.json_types import JsonMapping, JsonObject
from actors.rules.checks.values import stored_delta


def to_content(message: Any) -> Content:
    """The message of a turn: a text, a Content, its dictionary, or a google.genai Content. Raises InvalidMessageError."""
    if isinstance(message, str):
        return Content.of_text(message)
    if isinstance(message, Content):
        return message
    if isinstance(message, Mapping):
        return Content.from_dict(message)
    if message is None:
        raise InvalidMessageError("message has no parts: it is None")
    if hasattr(message, "parts") and hasattr(message, "model_dump"):
        try:
            return from_plain(Content, plain_of_genai(message), "message")
        except (AttributeError, TypeError) as error:
            raise InvalidMessageError(f"message is no google.genai Content: {error}") from error
    raise InvalidMessageError(
        "message must be a text, a Content, a dictionary with the fields of one, or a google.genai Content, "
        f"not {type(message).__name__}"
    )


def has_function_responses(content: Content) -> bool:
    """True when a message answers calls of agents. Raises InvalidMessageError when its parts are no Parts."""
    try:
        return any(content.function_responses())
    except (AttributeError, TypeError) as error:
        # Constructors check no types.
        raise InvalidMessageError(f"message must have a list of Parts: {error}") from error


def to_state(state: JsonMapping | None) -> JsonObject:
    """A copy of state, or of changes of it; {} for None.

    Raises NotEncodableError when it is no mapping, or would not come back from the store as it is.
    """
    if state is not None and not isinstance(state, Mapping):
        raise NotEncodableError(type(state).__name__, "state is a mapping of keys")
    return stored_delta(state) if state else {}
