"""Frames of server-sent events.

Only events that are stored have an `id`, their `seq`: so `Last-Event-ID` is always a place in the log.
"""

from __future__ import annotations

import msgspec

from actors.messages.event import Event

RETRY = b"retry: 1000\n\n"
"""Tells clients after how many milliseconds they may connect again."""

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, so that proxies do not close a stream in which nothing happens."""

BYE = b"event: bye\ndata: {}\n\n"
"""The server stops: the client goes on at another one, or at this one when it is back."""


def frame(kind: str, value: object, id: int = 0) -> bytes:
    """A frame with a JSON value.

    Args:
        kind: its `event`; "" for none.
        value: anything that has a JSON form.
        id: the position in the log; 0 for none.
    """
    head = (f"id: {id}\n" if id else "") + (f"event: {kind}\n" if kind else "")
    # msgspec writes no line breaks into JSON.
    return head.encode() + b"data: " + msgspec.json.encode(value) + b"\n\n"


def event_frame(event: Event) -> bytes:
    """The frame of an event: `partial` without an id, or `event` with one."""
    return frame("partial", event) if event.partial else frame("event", event, event.seq)
