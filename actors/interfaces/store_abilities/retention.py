"""What a SessionStore needs besides, so that model calls are recorded in it, and what is old is deleted and archived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from actors.interfaces.records import ModelCallRow
from actors.messages.session import OldSession, SessionKey, SessionPlace


@runtime_checkable
class PrunesSessions(Protocol):
    """What a SessionStore needs besides, so that old sessions can be pruned. It also does `NoteRemoval` and `ForgetRemoval`."""

    def old_sessions(
        self, app: str, user: str | None, before_s: float, *, limit: int, after: SessionPlace | None = None
    ) -> list[OldSession]:
        """Sessions that were created and written before a time, the oldest first. None has a turn that is open or paused.

        Args:
            app, user: of whom; with None of all users of the app.
            before_s: neither their creation nor their last write nor their last event is of this time or later, in seconds
                since the epoch.
            limit: at most so many.
            after: only those that come after this place.

        Raises:
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...

    def removals(self, app: str, user: str | None) -> list[OldSession]:
        """The sessions of a user, with None of all users of the app, whose removal is noted.

        Raises:
            StoreUnavailableError: the store is away or locked.
            StoreError: the store failed.
        """
        ...


@runtime_checkable
class ArchivesEvents(Protocol):
    """What a SessionStore needs besides, so that old events can be archived. It also does `ArchiveEvents`.

    Both methods raise StoreUnavailableError and StoreError as those of SessionStore do.
    """

    def long_sessions(
        self, app: str, user: str | None, more_than: int, *, limit: int, after: SessionKey | None = None
    ) -> list[SessionKey]:
        """The sessions of a user, with None of all users of the app, whose logs have more than so many events, in order.

        Args:
            limit: at most so many.
            after: only those that come after this one.
        """
        ...

    def archivable(self, key: SessionKey, before_s: float, *, keep: int, after_seq: int = 0) -> list[int]:
        """The positions of the next events of a session that can be archived, as many as one transaction should move.

        They are the first ones that are not archived yet, up to the first that is of the time `before_s` or later, that belongs
        to the newest `keep`, or at which a turn begins that is open or paused.

        Args:
            after_seq: only those after this position.
        """
        ...


@runtime_checkable
class KeepsModelCalls(Protocol):
    """A store of recorded model calls. It also does `AddModelCall` and `DeleteModelCalls`.

    Calls go with their session, and with the events that are hidden by a rewind. All methods raise StoreUnavailableError and
    StoreError as those of SessionStore do.
    """

    def model_calls(
        self, key: SessionKey, invocation_id: str, *, after: tuple[float, str] | None = None, limit: int
    ) -> list[ModelCallRow]:
        """The calls of a turn, the one that began first first.

        Args:
            after: only calls after this one, by its `begun_s` and its id.
            limit: at most so many.
        """
        ...

    def model_call_parts(self, key: SessionKey, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Those parts of requests in a session that are there, by digest."""
        ...

    def sessions_with_old_calls(self, app: str, before_s: float, *, limit: int) -> list[SessionKey]:
        """Sessions of an app with calls that began before a time, in seconds since the epoch, in any order.

        Args:
            limit: at most so many.
        """
        ...
