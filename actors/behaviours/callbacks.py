"""How user callbacks are called, and what they may return."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from actors.definitions.agents.callback import UserCallback
from actors.errors.user_code import UserResult
from actors.messages.content import Content
from actors.messages.llm.model import LlmResponse
from actors.rules.checks import model_answer

logger = logging.getLogger(__name__)


async def first_result(functions: Sequence[UserCallback], *args: object) -> UserResult:
    """Call the functions in order until one returns something other than None, and return that."""
    for function in functions:
        result = await function(*args)
        if result is not None:
            return result
    return None


def as_content(given: object) -> Content:
    """Convert what a callback returned to the content of an event.

    Raises:
        TypeError: it is neither a Content, ours or google-genai's, nor a text.
    """
    if isinstance(given, str):
        return Content.of_text(given, role="model")
    if isinstance(given, Content):
        return given
    if hasattr(given, "parts"):
        return Content.from_genai(given)
    raise TypeError(f"a callback must return a Content, a text or None, not {type(given).__name__}")


def as_response(given: object, model: str) -> LlmResponse:
    """Convert what a callback returned to the response of a model. Raises TypeError like `as_content`, ModelResponseError."""
    response = given if isinstance(given, LlmResponse) else LlmResponse(content=as_content(given))
    return model_answer.checked_response(response, model, logger.warning)
