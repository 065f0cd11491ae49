"""What is too large, and the errors that say so (sizes: see Limits)."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import TooLargeError
from actors.messages.codec import encode_event
from actors.messages.event import USER, Event
from actors.messages.limits import KIB, Limits

ENVELOPE = 8 * KIB
"""Bytes of an event that are kept free for everything besides the results of tools."""


def encoded(event: Event, limits: Limits) -> bytes:
    """The wire form of an event that may be stored.

    Raises:
        TooLargeError: it is larger than an event may be.
        NotEncodableError: see `encode_event`.
    """
    raw = encode_event(event)
    check_event(event.author, len(raw), limits)
    return raw


def check_event(author: str, size: int, limits: Limits) -> None:
    """Check the size of an event in bytes. Raises TooLargeError."""
    if size > limits.max_event_bytes:
        if author == USER:
            what = "the event of the message"
            advice = "RunConfig(save_input_blobs_as_artifacts=True) keeps data out of it, and rt.artifacts.save what is long"
        else:
            what, advice = f"an event of agent {author!r}", "save what is large as an artifact, and say its name"
        raise TooLargeError(what, size, "RAYGROVE_MAX_EVENT_BYTES", limits.max_event_bytes, advice)


def check_state(scope: str, size: int, limits: Limits) -> None:
    """Check the size in bytes that the state of a scope would have. Raises TooLargeError."""
    if size > limits.max_state_bytes:
        advice = "set keys that are not needed to something small, and save what is large as an artifact"
        raise TooLargeError(f"the {scope} state", size, "RAYGROVE_MAX_STATE_BYTES", limits.max_state_bytes, advice)


def too_large_request(size: int, limit: int) -> TooLargeError:
    """The error of a driver's request that has more bytes than its limit."""
    advice = "save what is large with rt.artifacts.save, and say its name in the message"
    return TooLargeError("the message", size, "RAYGROVE_MAX_MESSAGE_BYTES", limit, advice)


def results_to_drop(sizes: Sequence[int], limits: Limits) -> set[int]:
    """The indexes of the tool results to shorten so that all fit into one event: the largest first.

    Args:
        sizes: bytes of each result.
        limits: the size of an event.
    """
    room = limits.max_event_bytes - ENVELOPE
    dropped: set[int] = set()
    total = sum(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index], reverse=True):
        if total <= room:
            break
        dropped.add(index)
        total -= sizes[index]
    return dropped


def beginning_and_end(text: str, room: int) -> str:
    """A text of which only so many characters are left: three quarters of them from its beginning, the others from its end."""
    if len(text) <= room:
        return text
    end = room // 4
    left_out = f"\n[… {len(text) - room} of {len(text)} characters are left out …]\n"
    return text[: room - end] + left_out + text[len(text) - end :]
