"""Which messages a turn can be started with (semantics.md section 2)."""

from __future__ import annotations

from actors.errors import InvalidMessageError
from actors.messages.codec import content_flaw
from actors.messages.content import Content, Part
from actors.messages.event import USER


def checked(content: Content) -> Content:
    """The message in the role `user`.

    Raises:
        InvalidMessageError: it has no parts, says nothing, calls a function, answers a call without its id, or holds what is no
            JSON where JSON has to be.
    """
    if not content.parts or content.is_empty():
        raise InvalidMessageError("message has no parts: give at least one with text, data or a function response")
    if (wrong := content_flaw(content)) is not None:
        raise InvalidMessageError(f"message cannot be sent: {wrong}")
    for call in content.function_calls():
        raise InvalidMessageError(f"message has a function call ({call.name!r}): only agents call functions, users answer them")
    for response in content.function_responses():
        if not response.id:
            raise InvalidMessageError(f"message has a function response for {response.name!r} without the id of its call")
    return Content(role=USER, parts=content.parts)


def has_blobs(content: Content) -> bool:
    """True when some part carries inline data."""
    return any(part.inline_data is not None for part in content.parts)


def artifact_name(id: str, index: int) -> str:
    """Under which name the data of a part at `index` is saved: of a message by its invocation id, of an answer by its event's."""
    return f"artifact_{id}_{index}"


def without_blobs(content: Content, invocation_id: str) -> Content:
    """The message with its inline data replaced by where it is saved."""
    parts = [
        placeholder(artifact_name(invocation_id, index)) if part.inline_data is not None else part
        for index, part in enumerate(content.parts)
    ]
    return Content(role=USER, parts=parts)


def placeholder(filename: str) -> Part:
    """What stands in the log instead of the data."""
    return Part(text=f"Uploaded file: {filename}. It is saved into artifacts")


def answers(content: Content) -> tuple[str, ...]:
    """Ids of the calls that a message answers."""
    return tuple(response.id for response in content.function_responses() if response.id)
