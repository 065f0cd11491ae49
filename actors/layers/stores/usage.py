"""Reports of usage: the turns that are added up, and the pages in which a session store returns their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from actors.messages.session import SessionKey


class UsageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turns to add up, those too that were rewound.

    Attributes:
        user: of that user only; None: of all users.
        session: of that session of the user only; None: of all sessions.
        invocation_id: that turn of the session only; "": all of them.
        since_s: only turns that began at this time or later, in seconds since the epoch.
        groups: what to tell them apart by: "user", "day", "version", "turn" or "" for nothing.
    """

    app: str
    user: str | None = None
    session: str | None = None
    invocation_id: str = ""
    since_s: float = 0.0
    groups: str = ""


class UnsummedTurn(NamedTuple):
    """A turn of which only its events say what it has used: one that runs, or has ended otherwise than by its last event.

    Attributes:
        first_seq, last_seq: its events stand from here to there; `last_seq` is 0 while it runs.
        begun_s: when it began, in seconds since the epoch.
        version: of the tree, by which it ran.
    """

    key: SessionKey
    invocation_id: str
    first_seq: int
    last_seq: int
    begun_s: float
    version: str = ""


class UsagePlace(NamedTuple):
    """Where a page of turns ends."""

    begun_s: float
    sid: int
    invocation_id: str


TurnId = tuple[int, str]
"""A turn, by the number that the store has given its session, and its invocation id."""


class TurnName(NamedTuple):
    """A turn, as a report names it."""

    user: str
    session: str
    invocation_id: str
    begun_s: float


class UsagePage(NamedTuple):
    """Some of the turns that a filter wants.

    Attributes:
        turns: what those have used whose sums are stored, packed, by user, by version, by day as `day_of` names it, or all under
            "".
        unsummed: the others.
        next: where the next page begins; None: there are no more.
        ids: of the turns under "", in their order, if the filter wants them by turn.
    """

    turns: Mapping[str, Sequence[bytes]]
    unsummed: Sequence[UnsummedTurn] = ()
    next: UsagePlace | None = None
    ids: Sequence[TurnId] = ()
