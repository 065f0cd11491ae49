"""Which partials of streamed responses may be left out, so that a late reader gets fewer events and misses no word.

- Partials are for reading along. Once a response is complete, its partials say nothing new.
- Consecutive partials that differ only in their text are merged into one with all of the text.
- Agents on parallel branches respond at the same time. Each author on a branch is a stream of its own, and partials of one stream
  are merged even if partials of another came between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from actors.messages import typed
from actors.messages.codec import decode_event, encode
from actors.messages.content import Content, Part
from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent

Stream = tuple[str, str | None]
"""Author and branch: what the partials of a response and the complete event have in common."""


class _StreamScan(msgspec.Struct, gc=False):
    id: str = ""
    author: str = ""
    branch: str | None = None


_scanner = typed.decoder(_StreamScan)


def stream_of(raw: bytes) -> Stream:
    """The stream of an encoded event. The decoder skips the rest of its bytes."""
    found = _scanner.decode(raw)
    return found.author, found.branch


def id_of(raw: bytes) -> str:
    """The id of an encoded event. All partials of a response have that of its complete event."""
    return _scanner.decode(raw).id


def merged(events: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The same events in the same order, with fewer partials."""
    kept: list[StoredEvent | _MergedPartial | None] = []
    partials: dict[Stream, list[int]] = {}
    growing: dict[Stream, _MergedPartial] = {}
    for stored in events:
        if stored.seq:
            # The complete response: it contains all its partials.
            stream = stream_of(stored.raw)
            growing.pop(stream, None)
            for index in partials.pop(stream, ()):
                kept[index] = None
            kept.append(stored)
            continue
        try:
            event = decode_event(stored.raw, 0)
        except RecursionError:
            # Nested too deep for its readers, too: they report that.
            kept.append(stored)
            continue
        stream = (event.author, event.branch)
        partial = growing.get(stream)
        if partial is None or not partial.takes(event):
            partials.setdefault(stream, []).append(len(kept))
            growing[stream] = partial = _MergedPartial(stored, event)
            kept.append(partial)
    return [each.whole() if isinstance(each, _MergedPartial) else each for each in kept if each is not None]


class _MergedPartial:
    """Partials that become one: a first one, and later ones that differ from it only in their text."""

    def __init__(self, stored: StoredEvent, event: Event) -> None:
        self._stored = stored
        self._event = event
        self._without_text, text = _split(event)
        self._texts = [text]

    def takes(self, event: Event) -> bool:
        """Add a partial; False when it differs in more than its text."""
        without_text, text = _split(event)
        if without_text is None or without_text != self._without_text:
            return False
        self._texts.append(text)
        return True

    def whole(self) -> StoredEvent:
        """All of them as one event."""
        content = self._event.content
        if len(self._texts) == 1 or content is None:
            return self._stored
        part = msgspec.structs.replace(content.parts[0], text="".join(self._texts))
        whole = msgspec.structs.replace(self._event, content=msgspec.structs.replace(content, parts=[part]))
        return StoredEvent(0, encode(whole))


def _split(event: Event) -> tuple[Event | None, str]:
    """The event without its text, and the text; None for an event that is more than one text."""
    content = event.content
    if content is None or len(content.parts) != 1:
        return None, ""
    text = content.parts[0].text
    bare = Part(thought=content.parts[0].thought)
    if text is None or content.parts[0] != msgspec.structs.replace(bare, text=text):
        return None, ""
    return msgspec.structs.replace(event, id="", timestamp=0.0, content=Content(role=content.role, parts=[bare])), text


def rest_of(had: Sequence[StoredEvent], told: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The rest of an answer for a reader that had some of its partials.

    Args:
        had: partials of the answer's beginning, or of another attempt at it.
        told: the partials of the answer so far, from its beginning.

    Returns:
        The partials after `had`; all of `told` when it does not begin with `had`.
    """
    before, whole = _segments(had), _segments(told)
    for index, (kind, text, _) in enumerate(before):
        is_last = index == len(before) - 1
        same = index < len(whole) and whole[index].kind == kind
        if not same or not (whole[index].text.startswith(text) if is_last else whole[index].text == text):
            return list(told)
    if not before:
        return list(told)
    last = whole[len(before) - 1]
    rest = last.text[len(before[-1].text) :]
    return [*([_with_text(last.stored, rest)] if rest else []), *(segment.stored for segment in whole[len(before) :])]


class _Segment(NamedTuple):
    """A merged partial: what it is without its text, its text, and itself."""

    kind: Event
    text: str
    stored: StoredEvent


def _segments(partials: Sequence[StoredEvent]) -> list[_Segment]:
    segments = []
    for stored in merged(partials):
        event = decode_event(stored.raw, 0)
        kind, text = _split(event)
        segments.append(_Segment(kind or msgspec.structs.replace(event, id="", timestamp=0.0), text, stored))
    return segments


def _with_text(stored: StoredEvent, text: str) -> StoredEvent:
    event = decode_event(stored.raw, 0)
    assert event.content is not None
    part = msgspec.structs.replace(event.content.parts[0], text=text)
    content = msgspec.structs.replace(event.content, parts=[part])
    return StoredEvent(0, encode(msgspec.structs.replace(event, content=content)))
