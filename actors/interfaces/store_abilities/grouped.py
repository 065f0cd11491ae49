"""Reads for many requests at once: what a SessionStore may have besides, where each read is a round trip."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from actors.messages.operating.schedule import ScheduleRow
from actors.messages.session import SessionKey


@runtime_checkable
class ReadsInGroups(Protocol):
    """A SessionStore that looks many things up in one go. Without it they are looked up one by one.

    All methods raise StoreUnavailableError and StoreError as those of SessionStore do.
    """

    def may_exist(self, keys: Sequence[SessionKey]) -> Collection[SessionKey]:
        """Those of some sessions that may be there; none of the others is."""
        ...

    def schedules_named(self, app: str, places: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], ScheduleRow]:
        """Those schedules of an app that are there, by user and name, of some users and names."""
        ...
