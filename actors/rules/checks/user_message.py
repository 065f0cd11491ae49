"""Which messages a turn can start with, and how their data leaves the log (semantics.md section 2)."""

from __future__ import annotations

from actors.errors import InvalidMessageError
from actors.messages.codec import content_flaw
from actors.messages.content import Content, Part
from actors.messages.event import USER
from actors.rules.checks import budget_question, confirmation


def checked(content: Content, *, may_be_empty: bool = False) -> Content:
    """The message with the role `user`.

    Args:
        may_be_empty: an empty text is a message, too: a graph may need no words to begin.

    Raises:
        InvalidMessageError: it has no parts or only empty ones, calls a function, has a function response without the id of its
            call, or holds a value that is no JSON where JSON has to be,
            or an answer to a question about a budget that is none.
    """
    if content.is_empty() and not (may_be_empty and any(part.text is not None for part in content.parts)):
        raise InvalidMessageError("message has no parts: give at least one with text, data or a function response")
    if (wrong := content_flaw(content)) is not None:
        raise InvalidMessageError(f"message cannot be sent: {wrong}")
    answers = False
    for part in content.parts:
        if part.function_call is not None:
            name = part.function_call.name
            raise InvalidMessageError(f"message has a function call ({name!r}): only agents call functions, users answer them")
        answers = answers or part.function_response is not None
    if not answers:
        return content if content.role == USER else Content(role=USER, parts=list(content.parts))
    for response in content.function_responses():
        if not response.id:
            raise InvalidMessageError(f"message has a function response for {response.name!r} without the id of its call")
    return Content(role=USER, parts=[budget_question.checked_answer(confirmation.of_clients(part)) for part in content.parts])


def has_blobs(content: Content) -> bool:
    """True when some part carries inline data."""
    return any(part.inline_data is not None for part in content.parts)


def artifact_name(id: str, index: int) -> str:
    """The artifact name for the data of the part at `index`. `id` is a message's invocation id, or the id of a model's event."""
    return f"artifact_{id}_{index}"


def without_blobs(content: Content, invocation_id: str) -> Content:
    """The message with a placeholder for each part of inline data."""
    parts = [
        placeholder(artifact_name(invocation_id, index)) if part.inline_data is not None else part
        for index, part in enumerate(content.parts)
    ]
    return Content(role=USER, parts=parts)


def placeholder(filename: str) -> Part:
    """The part that stands in the log instead of the data."""
    return Part(text=f"Uploaded file: {filename}. It is saved into artifacts")


def answers(content: Content) -> tuple[str, ...]:
    """Ids of the calls that the message has function responses for."""
    # No generator: each message is asked, and most answer nothing.
    ids: list[str] = []
    for part in content.parts:
        if part.function_response is not None and part.function_response.id:
            ids.append(part.function_response.id)
    return tuple(ids)
