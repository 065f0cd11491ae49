"""A session as its readers see it, what is remembered of it, the key that names it, and the shard that serves it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from actors.errors.hints import CheckedStruct
from actors.messages.event import Event
from actors.messages.json_types import JsonObject
from actors.messages.shown import Shown


class SessionKey(msgspec.Struct, frozen=True, array_like=True, order=True, cache_hash=True, gc=False):
    """Names a session: app, user and the session's id."""

    app: str
    user: str
    session: str


_RUN = re.compile("~[0-9a-f]{16}")
_RUNS = re.compile(f"(?:{_RUN.pattern})+$")


RUN_LENGTH = 17
"""So many characters more has the id of a run's session than that of the session in which it was started."""


def digest(text: str) -> str:
    """An id that is the same for the same text: 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def run_session(session: str, run: str) -> str:
    """The id of the session of a background run that was started in a session."""
    return f"{session}~{run}"


def run_of(session: str) -> tuple[str, str] | None:
    """The session in which a background run was started, and the run, by the id of its session; None: it is no run's."""
    started_in, run = session[:-RUN_LENGTH], session[-RUN_LENGTH:]
    return (started_in, run[1:]) if started_in and _RUN.fullmatch(run) else None


def conversation_of(session: str) -> str:
    """The session that a user speaks in, by the id of a session: of a background run, that in which the first was started."""
    return _RUNS.sub("", session) or session


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


class MemoryEntry(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel"):
    """The text of one event of a remembered session.

    Attributes:
        session_id: the session of the event.
        author: the name of the agent, or `user`.
        timestamp: seconds since the epoch.
        text: the text of the event, thoughts left out.
    """

    session_id: str
    author: str
    timestamp: float
    text: str
