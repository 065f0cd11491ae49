"""The states that sessions share, by their versions: one statement finds out which were changed, and reads those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Text

from actors.interfaces.records import VersionedState
from runtime.stores.sql.postgres.arrays import array_of

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
