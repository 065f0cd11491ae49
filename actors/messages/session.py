"""A session as its readers see it, the key that names it, and the shard that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.messages.shown import Shown


class SessionKey(msgspec.Struct, frozen=True, array_like=True, order=True, cache_hash=True, gc=False):
    """Names a session: app, user and the session's id."""

    app: str
    user: str
    session: str


TurnKey = tuple[SessionKey, str]
"""Names a turn: its session and its invocation id."""


class SessionPlace(NamedTuple):
    """Where a session stands in a list of them, the one written last first."""

    updated_s: float
    user: str
    session: str


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """The part of all sessions that one of several actors of a kind serves.

    Attributes:
        index: the number of the shard, from 0.
        of: how many shards there are.
    """

    index: int = 0
    of: int = 1


ONLY_SHARD = Shard()
"""All sessions: the shard of an actor that is the only one of its kind."""


class Session(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session as of one moment.

    Attributes:
        state: all scopes merged, app's and user's keys under their `app:` and `user:` prefix.
        events: the visible events asked for, oldest first.
        last_update_time: seconds since the epoch.
    """

    app_name: str
    user_id: str
    id: str
    state: JsonObject = {}
    events: Sequence[Event] = ()
    last_update_time: float = 0.0
