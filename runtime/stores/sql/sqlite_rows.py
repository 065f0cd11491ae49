"""Rows for many requests at once.

Each statement outside of a transaction takes SQLite's locks anew, which takes four times as long as the look-up; and SQLAlchemy
writes a list of values into a statement anew each time. So these statements have a fixed number of places, and the last value
stands in those that are left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import TextClause, text

from actors.messages.session import SessionKey
from runtime.stores.sql.database import Database

FEW, MANY = 8, 64
"""Places of a statement."""

T = TypeVar("T")


def existing_sessions(database: Database, keys: Sequence[SessionKey]) -> list[SessionKey]:
    """Those of some sessions that are there. Raises StoreError."""
    found: dict[SessionKey, None] = {}
    for places in _filled(keys):
        given: dict[str, str] = {}
        for number, key in enumerate(places):
            given[f"a_{number}"], given[f"u_{number}"], given[f"s_{number}"] = key.app, key.user, key.session
        found.update((SessionKey(*row), None) for row in database.tuples(_exist(len(places)), given, by_keys=True))
    return list(found)


def states_of_users(database: Database, app: str, users: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The states of some users of an app, of the app itself with user "", as (user, key, value). Raises StoreError."""
    for places in _filled(users):
        given = {f"u_{number}": user for number, user in enumerate(places)}
        yield from database.tuples(_states(len(places)), {"app": app, **given}, by_keys=True)


def _filled(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in batches that fit into one statement."""
    first = 0
    while first < len(values):
        part = values[first : first + (FEW if len(values) - first <= FEW else MANY)]
        first += len(part)
        yield [*part, *[part[-1]] * ((FEW if len(part) <= FEW else MANY) - len(part))]


@cache
def _exist(places: int) -> TextClause:
    given = ", ".join(f"(:a_{number}, :u_{number}, :s_{number})" for number in range(places))
    on = 'there.app = given.column1 AND there."user" = given.column2 AND there.session = given.column3'
    return text(
        f'SELECT there.app, there."user", there.session FROM (VALUES {given}) AS given JOIN raygrove_sessions AS there ON {on}'
    )


@cache
def _states(places: int) -> TextClause:
    users = ", ".join(f":u_{number}" for number in range(places))
    return text(f'SELECT "user", "key", value FROM raygrove_shared_state WHERE app = :app AND "user" IN ({users})')
