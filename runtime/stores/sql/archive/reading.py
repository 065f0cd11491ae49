"""Reads what is in the archive, beside the rows that events have all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import bindparam, select

from actors.errors import StoreError
from actors.messages.session import SessionKey
from runtime.stores.sql.archive.blocks import ArchivedEvent, unpacked
from runtime.stores.sql.database import Rows
from runtime.stores.sql.schema import ARCHIVED, archive

_BLOCKS = (
    select(archive.c.raw)
    .where(
        archive.c.sid == bindparam("sid"),
        archive.c.last_seq >= bindparam("first_seq"),
        archive.c.first_seq <= bindparam("last_seq"),
    )
    .order_by(archive.c.first_seq)
)

Values = list[tuple[int, bytes]]
"""A value of each event, by its position."""


class ArchiveReader:
    """Puts the bytes of archived events in place of what stands for them in their rows.

    Args:
        rows: runs a query about one session, which has its sid and the parameters that are given by name.
        store: the store in words, for errors.
    """

    def __init__(self, rows: Callable[..., Rows], store: str) -> None:
        self._rows = rows
        self._store = store

    def raws(self, key: SessionKey, read: Callable[[], Values]) -> Values:
        """The bytes of events.

        Args:
            read: reads them from the rows.

        Raises:
            StoreError: the archive lacks some, or is damaged.
        """
        return self._whole(key, read, lambda event: event.raw)

    def undos(self, key: SessionKey, read: Callable[[], Values]) -> Values:
        """The state that events have overwritten: see `raws`."""
        return self._whole(key, read, lambda event: event.undo)

    def _whole(self, key: SessionKey, read: Callable[[], Values], value: Callable[[ArchivedEvent], bytes]) -> Values:
        lacking: list[int] = []
        # Another process may delete the session between two queries, and make it anew.
        for _ in range(2):
            values = read()
            archived = [seq for seq, found in values if found == ARCHIVED]
            if not archived:
                return values
            events = self._events(key, min(archived), max(archived))
            lacking = [seq for seq in archived if seq not in events]
            if not lacking:
                return [(seq, value(events[seq]) if found == ARCHIVED else found) for seq, found in values]
        raise StoreError(
            f"{self._store}: the archive of session {key.session!r} lacks {len(lacking)} events from {lacking[0]} on"
        )

    def _events(self, key: SessionKey, first_seq: int, last_seq: int) -> dict[int, ArchivedEvent]:
        blocks: Sequence[Sequence[bytes]] = self._rows(key, _BLOCKS, first_seq=first_seq, last_seq=last_seq)
        try:
            return {event.seq: event for (raw,) in blocks for event in unpacked(bytes(raw))}
        except ValueError as error:
            raise StoreError(f"{self._store}: session {key.session!r}: {error}") from error
