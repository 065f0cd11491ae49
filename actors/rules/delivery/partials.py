"""What may be left out of the pieces of streamed answers, so that a reader who is late gets fewer and misses no word.

- Pieces are for reading along. When an answer is complete, its pieces have nothing more to say.
- Pieces that differ only in their text are one piece with all of it.
- Agents on parallel branches speak at the same time: each has a voice of its own, and pieces of one are not kept apart by
  those of another.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.codec import decode_event, encode
from actors.messages.content import Content, Part
from actors.messages.event import Event
from actors.messages.protocol.base import StoredEvent

Voice = tuple[str, str | None]
"""Who speaks, and on which branch: what its pieces and its complete event have in common."""


class _Speaker(msgspec.Struct, gc=False):
    author: str = ""
    branch: str | None = None


_speaker = msgspec.msgpack.Decoder(_Speaker)


def voice(raw: bytes) -> Voice:
    """Whose event it is. The rest of its bytes is passed over."""
    found = _speaker.decode(raw)
    return found.author, found.branch


def merged(events: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The same events in the same order, with fewer pieces."""
    kept: list[StoredEvent | _Run | None] = []
    said: dict[Voice, list[int]] = {}
    runs: dict[Voice, _Run] = {}
    for stored in events:
        if stored.seq:
            # The whole answer: what was said of it before is in it.
            speaker = voice(stored.raw)
            runs.pop(speaker, None)
            for place in said.pop(speaker, ()):
                kept[place] = None
            kept.append(stored)
            continue
        try:
            event = decode_event(stored.raw, 0)
        except RecursionError:
            # Too deep for those who read it, too; that is theirs to tell.
            kept.append(stored)
            continue
        speaker = (event.author, event.branch)
        run = runs.get(speaker)
        if run is None or not run.takes(event):
            said.setdefault(speaker, []).append(len(kept))
            runs[speaker] = run = _Run(stored, event)
            kept.append(run)
    return [each.whole() if isinstance(each, _Run) else each for each in kept if each is not None]


class _Run:
    """Pieces that become one."""

    def __init__(self, stored: StoredEvent, event: Event) -> None:
        self._stored = stored
        self._event = event
        self._like, text = _split(event)
        self._texts = [text]

    def takes(self, event: Event) -> bool:
        """Add a piece; False when it does not belong to these."""
        like, text = _split(event)
        if like is None or like != self._like:
            return False
        self._texts.append(text)
        return True

    def whole(self) -> StoredEvent:
        content = self._event.content
        if len(self._texts) == 1 or content is None:
            return self._stored
        part = msgspec.structs.replace(content.parts[0], text="".join(self._texts))
        whole = msgspec.structs.replace(self._event, content=msgspec.structs.replace(content, parts=[part]))
        return StoredEvent(0, encode(whole))


def _split(event: Event) -> tuple[Event | None, str]:
    """The event but for its text, and its text; None for one that says anything else."""
    content = event.content
    if content is None or len(content.parts) != 1:
        return None, ""
    text = content.parts[0].text
    bare = Part(thought=content.parts[0].thought)
    if text is None or content.parts[0] != msgspec.structs.replace(bare, text=text):
        return None, ""
    return msgspec.structs.replace(event, id="", timestamp=0.0, content=Content(role=content.role, parts=[bare])), text
