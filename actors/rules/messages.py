"""Which messages a turn can be started with (semantics.md section 2)."""

from __future__ import annotations

from actors.errors import InvalidMessageError
from actors.messages.content import Content, Part
from actors.messages.event import USER


def checked(content: Content) -> Content:
    """The message in the role `user`.

    Raises:
        InvalidMessageError: it has no parts, says nothing, calls a function, or answers a call without its id.
    """
    if not content.parts or content.is_empty():
        raise InvalidMessageError("message has no parts: give at least one with text, data or a function response")
    for call in content.function_calls():
        raise InvalidMessageError(f"message has a function call ({call.name!r}): only agents call functions, users answer them")
    for response in content.function_responses():
        if not response.id:
            raise InvalidMessageError(f"message has a function response for {response.name!r} without the id of its call")
    return Content(role=USER, parts=content.parts)


def has_blobs(content: Content) -> bool:
    """True when some part carries inline data."""
    return any(part.inline_data is not None for part in content.parts)


def artifact_name(invocation_id: str, index: int) -> str:
    """Under which name the inline data of a message's part at `index` is saved."""
    return f"artifact_{invocation_id}_{index}"


def placeholder(filename: str) -> Part:
    """What stands in the log instead of the data."""
    return Part(text=f"Uploaded file: {filename}. It is saved into artifacts")


def answers(content: Content) -> tuple[str, ...]:
    """Ids of the calls that a message answers."""
    return tuple(response.id for response in content.function_responses() if response.id)
