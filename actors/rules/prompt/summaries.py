"""Summaries in the compiled log of an agent: each takes the place of the entries that it covers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.event import Event, EventCompaction
from actors.rules.prompt.compiler import Entry


def covers(outer: EventCompaction, inner: EventCompaction) -> bool:
    """True when a summary covers all that another one does."""
    return outer.start_seq <= inner.start_seq and inner.end_seq <= outer.end_seq


class Summaries:
    """The summaries that stand in one compiled log.

    A long-running call may be covered together with what its tool has said so far, while the answer is still to come. Such calls
    are set aside, and come back with the answer: no model takes a result without its call.
    """

    def __init__(self) -> None:
        self._standing: list[tuple[EventCompaction, Entry]] = []
        # By call: the entry that makes it, and those with results of calls that were made together with it.
        self._aside: dict[str, list[Entry]] = {}

    def copy(self) -> Summaries:
        """Another one that goes on from here."""
        made = Summaries()
        made._standing, made._aside = self._standing.copy(), self._aside.copy()
        return made

    def put(self, event: Event, entries: Sequence[Entry]) -> list[Entry]:
        """The entries with the summary of an event in place of what it covers; the same ones if another summary covers more."""
        compaction = event.actions.compaction
        assert compaction is not None
        if any(covers(known, compaction) and not covers(compaction, known) for known, _ in self._standing):
            return list(entries)
        replaced = {id(entry) for known, entry in self._standing if covers(compaction, known)}
        left_standing = [pair for pair in self._standing if id(pair[1]) not in replaced]
        summaries = {id(entry) for _, entry in left_standing}
        kept: list[Entry] = []
        covered: list[Entry] = []
        for entry in entries:
            is_inside = compaction.start_seq <= entry.seq <= compaction.end_seq and id(entry) not in summaries
            if id(entry) not in replaced:
                (covered if is_inside else kept).append(entry)
        self._set_aside(covered)
        content = compaction.compacted_content
        summary = Entry(invocation_id=event.invocation_id, content=content, seq=compaction.end_seq)
        self._standing = [*left_standing, (compaction, summary)]
        place = next((index for index, entry in enumerate(kept) if entry.seq > compaction.end_seq), len(kept))
        return [*kept[:place], summary, *kept[place:]]

    def _set_aside(self, covered: Sequence[Entry]) -> None:
        for entry in covered:
            if entry.long_running:
                calls = set(entry.calls)
                results = [other for other in covered if any(response.id in calls for response in other.responses)]
                self._aside.update((call_id, [entry, *results]) for call_id in entry.calls)

    def brought_back(self, entry: Entry) -> list[Entry]:
        """The entries that were set aside and belong before this one, since it answers a call in them."""
        found: list[Entry] = []
        for response in entry.responses:
            for other in self._aside.get(response.id or "", ()):
                for call_id in other.calls:
                    self._aside.pop(call_id, None)
                found.append(msgspec.structs.replace(other, seq=entry.seq))
        return found
