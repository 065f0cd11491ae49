"""Partial and complete events of streamed responses, as a reader gets them."""

from __future__ import annotations

from collections.abc import Sequence

from actors import Content, Event
from actors.messages import protocol as p
from actors.messages.codec import decode_event, encode


def partial(text: str, author: str = "a", branch: str | None = None, **more: object) -> p.StoredEvent:
    """A partial event."""
    content = more.pop("content", Content.of_text(text, role="model"))
    return p.StoredEvent(0, encode(Event(author=author, branch=branch, partial=True, content=content, **more)))  # type: ignore[arg-type]


def complete(seq: int, text: str = "", author: str = "a", branch: str | None = None) -> p.StoredEvent:
    """A complete event at a position."""
    return p.StoredEvent(seq, encode(Event(author=author, branch=branch, content=Content.of_text(text, role="model"))))


def texts(events: Sequence[p.StoredEvent]) -> list[tuple[int, str, str]]:
    """Position, author and text of each event."""
    decoded = [decode_event(stored.raw, stored.seq) for stored in events]
    return [(event.seq, event.author, _text(event)) for event in decoded]


def _text(event: Event) -> str:
    return "".join(part.text or "" for part in event.content.parts) if event.content is not None else ""


def page(events: Sequence[p.StoredEvent], *, more: bool = False) -> p.TurnRead:
    """A page of a turn as the log gives it."""
    return p.TurnRead(events=events, read_to_seq=events[-1].seq, more=more)
