"""Rows for many requests at once on PostgreSQL: one statement takes all keys as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from psycopg.rows import namedtuple_row
from sqlalchemy import BigInteger, Text

from actors.interfaces.stores import VersionedState
from actors.layers.stores.schedule import ScheduleRow
from actors.messages.session import SessionKey
from runtime.stores.sql.postgres.arrays import array_of
from runtime.stores.sql.schedules import schedule_row

_EXIST = (
    "SELECT given.number FROM unnest(%s, %s, %s) WITH ORDINALITY AS given (app, user_id, session, number) "
    'JOIN raygrove_sessions AS there ON there.app = given.app AND there."user" = given.user_id AND there.session = given.session'
)
_SCHEDULES = (
    "SELECT there.* FROM unnest(%s, %s) AS given (user_id, name) "
    'JOIN raygrove_schedules AS there ON there.app = %s AND there."user" = given.user_id AND there.name = given.name'
)

_texts = array_of(Text())


def existing_sessions(driver: Any, keys: Sequence[SessionKey]) -> list[SessionKey]:
    """Those of some sessions that are there. `driver`: a connection of psycopg. Raises psycopg.Error."""
    given = [_texts([getattr(key, name) for key in keys]) for name in ("app", "user", "session")]
    return [keys[number - 1] for (number,) in driver.execute(_EXIST, given, prepare=True, binary=True)]


def schedules_named(driver: Any, app: str, places: Sequence[tuple[str, str]]) -> list[ScheduleRow]:
    """Those schedules of an app that are there, of some users and names. Raises psycopg.Error."""
    users, names = zip(*places, strict=True)
    with driver.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(_SCHEDULES, [_texts(users), _texts(names), app], prepare=True, binary=True)
        return [schedule_row(row) for row in cursor]


_CHANGED = (
    "SELECT given.user_id, coalesce(of_state.version, 0), there.key, there.value FROM unnest(%s, %s) AS given (user_id, version) "
    'LEFT JOIN raygrove_shared_versions AS of_state ON of_state.app = %s AND of_state."user" = given.user_id '
    'LEFT JOIN raygrove_shared_state AS there ON there.app = %s AND there."user" = given.user_id '
    "WHERE coalesce(of_state.version, 0) <> given.version"
)

_users, _versions = array_of(Text()), array_of(BigInteger())


def changed_states(driver: Any, app: str, known: Mapping[str, int]) -> dict[str, VersionedState]:
    """See `SessionStore.changed_states`. `driver`: a connection of psycopg. Raises psycopg.Error."""
    given = [_users(list(known)), _versions(list(known.values())), app, app]
    found: dict[str, VersionedState] = {}
    for user, version, name, value in driver.execute(_CHANGED, given, prepare=True, binary=True):
        values = found.setdefault(user, VersionedState(version, {})).values
        if name is not None:
            values[name] = msgspec.msgpack.decode(value)
    return found
