"""Partials of streamed answers: what is kept of them for readers that come late, and which may be left out.

- An answer is what one agent says on one branch (a *stream*) until its complete event: the partials of one model response. Once
  it is complete, its partials say nothing new.
- Consecutive partials that differ only in their text are merged into one with all of the text, even if partials of another stream
  came between them.
- A partial is counted within its answer. One that comes twice is known by its number, and one that comes after a gap shows that
  the beginning is not here: it was in the memory of a process that was lost.
- A run that was lost answers anew: the partials of the lost run are void.
- What is kept of an answer is merged, and bounded. Of a longer answer nothing is kept: late readers get it when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from actors.messages import codec
from actors.messages.codec import encode
from actors.messages.content import Content, Part
from actors.messages.event import Event, decode_event
from actors.messages.protocol.base import StoredEvent

Stream = tuple[str, str | None]
"""Author and branch: what the partials of a response and the complete event have in common."""


class _StreamScan(msgspec.Struct, gc=False):
    id: str = ""
    author: str = ""
    branch: str | None = None


_scanner = codec.decoder(_StreamScan)


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


MERGE_BYTES = 32_000
"""Partials that are kept as they came, before they are merged."""

MAX_BYTES = 1_000_000
"""What is kept of one answer at most."""


class AnswerId(NamedTuple):
    """Names an answer: the turn's epoch, the run that gives it, and its number in that run."""

    epoch: int
    run: int
    number: int


class Told(NamedTuple):
    """What some partials bring.

    Attributes:
        new: those that have not come before.
        lacks_beginning: they cannot be delivered, since the ones before them are not known; the whole answer has to come again.
        begins_again: readers may have another beginning of this answer, and have to compare it with what is kept here.
    """

    new: Sequence[StoredEvent] = ()
    lacks_beginning: bool = False
    begins_again: bool = False


class AnswerPartials:
    """The partials of one answer.

    Attributes:
        count: how many have come.
        event_id: of the event that they are pieces of; "" before the first one.
        is_whole: False when the answer became too long, and nothing of it is kept.
    """

    def __init__(self) -> None:
        self.count = 0
        self.event_id = ""
        self.is_whole = True
        self._partials: list[StoredEvent] = []
        self._size = 0
        self._merge_at = MERGE_BYTES

    def add(self, partials: Sequence[StoredEvent]) -> None:
        """Take in the next partials."""
        if partials and not self.event_id:
            self.event_id = id_of(partials[0].raw)
        self.count += len(partials)
        if not self.is_whole:
            return
        self._partials += partials
        self._size += sum(len(partial.raw) for partial in partials)
        if self._size > self._merge_at:
            self._merge()

    def _merge(self) -> None:
        self._partials = merged(self._partials)
        self._size = sum(len(partial.raw) for partial in self._partials)
        self._merge_at = self._size + MERGE_BYTES
        if self._size > MAX_BYTES:
            self.is_whole = False
            self._partials = []

    def copy(self) -> AnswerPartials:
        """Another one with the same partials."""
        other = AnswerPartials()
        other.count, other.event_id, other.is_whole = self.count, self.event_id, self.is_whole
        other._partials = self.partials()
        other._size, other._merge_at = self._size, self._merge_at
        return other

    def partials(self) -> list[StoredEvent]:
        """All of it, merged; empty when it is not whole."""
        self._partials = merged(self._partials)
        return list(self._partials)


class AnswersUnderWay:
    """The answers that are under way in one turn.

    Args:
        invocation_id: of the turn.
    """

    def __init__(self, invocation_id: str = "") -> None:
        self.invocation_id = invocation_id
        self._answers: dict[Stream, tuple[AnswerId, AnswerPartials]] = {}
        self._void: set[Stream] = set()

    def __bool__(self) -> bool:
        return bool(self._answers)

    def tell(self, answer: AnswerId, first: int, partials: Sequence[StoredEvent], *, again: bool = False) -> Told:
        """Take in partials of an answer.

        Args:
            first: how many partials of the answer came before them.
            again: they are the whole answer so far, since its beginning was not known here.
        """
        if not partials:
            return Told()
        stream = stream_of(partials[0].raw)
        known, begins_again = self._answers.get(stream), again
        if known is None or known[0] != answer:
            if first > 0:
                return Told(lacks_beginning=True)
            begins_again = again or known is not None or stream in self._void
            self._void.discard(stream)
            known = self._answers[stream] = (answer, AnswerPartials())
        gap = first - known[1].count
        if gap > 0:
            return Told(lacks_beginning=True)
        new = partials[-gap:]
        known[1].add(new)
        return Told(new, begins_again=begins_again)

    def complete(self, raw: bytes) -> None:
        """Forget an answer: its complete event is in the log."""
        if self._answers or self._void:
            stream = stream_of(raw)
            self._answers.pop(stream, None)
            self._void.discard(stream)

    def complete_stored(self, events: Iterable[StoredEvent]) -> None:
        """Forget the answers whose complete events are among these, which were read from the log."""
        for raw in (event.raw for event in events if self._answers):
            known = self._answers.get(stream_of(raw))
            if known is not None and known[1].event_id and known[1].event_id == id_of(raw):
                self.complete(raw)

    def drop_runs(self, runs: Iterable[int] | None = None) -> None:
        """Forget the answers of runs that were lost; None: of all."""
        lost = None if runs is None else set(runs)
        for stream, (answer, _) in list(self._answers.items()):
            if lost is None or answer.run in lost:
                del self._answers[stream]
                self._void.add(stream)

    def partials(self) -> list[StoredEvent]:
        """All answers as streamed so far, merged, each from its beginning."""
        return [partial for _, answer in self._answers.values() for partial in answer.partials()]

    def cut_off(self) -> list[Stream]:
        """The streams of answers of which nothing is kept."""
        return [stream for stream, (_, answer) in self._answers.items() if not answer.is_whole]
