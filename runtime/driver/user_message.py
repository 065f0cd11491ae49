"""What users give to a turn or a session: a message, and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from actors.errors import InvalidMessageError, NotEncodableError
from actors.messages.content import Content


def as_content(message: Any) -> Content:
    """The message of a turn: a text, a Content, or a google.genai Content. Raises InvalidMessageError."""
    if isinstance(message, str):
        return Content.of_text(message)
    if isinstance(message, Content):
        return message
    if message is None:
        raise InvalidMessageError("message has no parts: it is None")
    if hasattr(message, "parts") and hasattr(message, "model_dump"):
        try:
            return Content.from_genai(message)
        except (msgspec.ValidationError, AttributeError, TypeError) as error:
            raise InvalidMessageError(f"message is no google.genai Content: {error}") from error
    raise InvalidMessageError(f"message must be a text, a Content or a google.genai Content, not {type(message).__name__}")


def has_answers(content: Content) -> bool:
    """True when it answers calls. Raises InvalidMessageError when its parts are none."""
    try:
        return any(content.function_responses())
    except (AttributeError, TypeError) as error:
        # Constructors check no types.
        raise InvalidMessageError(f"message must have a list of Parts: {error}") from error


def as_mapping(state: Mapping[str, Any] | None) -> dict[str, Any]:
    """State, or changes of it, as a user has given it.

    Raises:
        NotEncodableError: it is no mapping.
    """
    if state is not None and not isinstance(state, Mapping):
        raise NotEncodableError(type(state).__name__, "state is a mapping of keys")
    return dict(state or {})
