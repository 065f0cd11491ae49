"""Where a content goes that stands in one request only, and not in the log."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages.content import Content
from actors.messages.event import USER


def transient_place(contents: Sequence[Content]) -> int:
    """The index at which to insert it: before the newest messages to the agent, but behind the responses of its tools.

    So all that was there in the request before stays at its beginning, where a service may have it in its cache.
    """
    for index in range(len(contents) - 1, -1, -1):
        content = contents[index]
        if content.role != USER or any(content.function_responses()):
            return index + 1
    return 0


def place_before(contents: Sequence[Content], message: Content | None) -> int:
    """The index of a message among the contents; 0 where they do not have it, as with include_contents="none"."""
    places = (index for index in range(len(contents) - 1, -1, -1) if contents[index] is message)
    return next(places, 0)
