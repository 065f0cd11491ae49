"""A session as its readers see it, and the key by which everybody finds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.messages.event import Event


class SessionKey(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Which session: by app, user and id."""

    app: str
    user: str
    session: str


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """The sessions that one of several actors of a kind serves: which of how many it is. By default it is the only one."""

    index: int = 0
    of: int = 1


ONLY_SHARD = Shard()
"""The share of the only one of its kind."""


class Session(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session as of one moment.

    Attributes:
        state: all scopes merged, app's and user's keys under their `app:` and `user:` prefix.
        events: the visible events asked for, oldest first.
        last_update_time: seconds since the epoch.
    """

    app_name: str
    user_id: str
    id: str
    state: dict[str, Any] = {}
    events: Sequence[Event] = ()
    last_update_time: float = 0.0
