"""A SQL store as one of several: its place among them, the users that are in another one, and users that are moved.

Rules of this file:

- Each table of a session store stands in one of the four lists below, so that none is forgotten when a user is moved.
- Rows keep all their values but the number of their session, which each store chooses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Table, and_, bindparam, delete, func, insert, select, text, tuple_

from actors.errors import StoreConflictError, StoreError
from actors.layers.placing.rules import digest_with, user_digest
from actors.layers.stores.records import Arrival, StoreSeat, UserPlace
from actors.messages import codec
from runtime.stores.sql import schema
from runtime.stores.sql.commit import derive_authors
from runtime.stores.sql.database import Rows, SqlTransaction
from runtime.stores.sql.writers import FencedSqlStore

_SEAT = select(schema.seats.c.family, schema.seats.c.number, schema.seats.c.stores).where(schema.seats.c.app == bindparam("app"))
_PLACEMENTS = select(schema.placements.c.digest, schema.placements.c.store).where(schema.placements.c.app == bindparam("app"))
_OF_USERS = ("raygrove_sessions", "raygrove_shared_state", "raygrove_schedules", "raygrove_removals")
_USERS = text(
    " UNION ".join(
        f'SELECT "user" FROM (SELECT DISTINCT "user" FROM {table} WHERE app = :app AND "user" > :after '
        f'ORDER BY "user" LIMIT :limit) AS {table}_users'
        for table in _OF_USERS
    )
    + ' ORDER BY "user" LIMIT :limit'
)
_PLACE = text(
    "INSERT INTO raygrove_placements (app, digest, store, token) VALUES (:app, :digest, :store, '') "
    "ON CONFLICT (app, digest) DO UPDATE SET store = excluded.store, token = ''"
)


_arrivals = schema.arrivals
_placements = schema.placements


OF_SESSIONS: Sequence[Table] = (
    schema.events,
    schema.archive,
    schema.calls,
    schema.turns,
    schema.session_state,
    schema.model_calls,
    schema.model_call_parts,
)
"""Tables with rows of sessions, by the session's number."""

OF_USERS: Sequence[Table] = (schema.shared_state, schema.removals, schema.schedules)
"""Tables with rows of users."""

PAGE = 500
"""Rows in a part."""

_TABLES: Sequence[Table] = (schema.sessions, *OF_SESSIONS, *OF_USERS)
_BY_NAME = {table.name: table for table in _TABLES}

UserRow = tuple[str, dict[str, Any]]
"""The name of a table, and values by column."""


class PlacedSqlStore(FencedSqlStore):
    """The methods of `PlacedStore` for one of several stores."""

    def seat(self, app: str) -> StoreSeat | None:
        """The store's place in the list of an app's stores; None: it has none. Raises StoreError."""
        found = self._database.rows(_SEAT, {"app": app})
        return StoreSeat(*found[0]) if found else None

    def take_seat(self, app: str, seat: StoreSeat) -> None:
        """Keep another place in the list. Raises StoreError."""

        def take(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            connection.execute(delete(schema.seats).where(schema.seats.c.app == app))
            taken = {"app": app, "family": seat.family, "number": seat.number, "stores": seat.of}
            connection.execute(insert(schema.seats), taken)

        with self._database.store_errors():
            self._commit(take)

    def users(self, app: str, after: str, limit: int) -> list[str]:
        """The users of an app of whom there is anything, by name. Raises StoreError."""
        return [row.user for row in self._database.rows(_USERS, {"app": app, "after": after, "limit": limit})]

    def placements(self, app: str) -> dict[bytes, int]:
        """The users that are in another store, by digest: the number of that store. Raises StoreError."""
        return {bytes(digest): store for digest, store in self._database.rows(_PLACEMENTS, {"app": app})}

    def place_users(self, app: str, placements: Mapping[bytes, int]) -> None:
        """Note that users are in another store: its number by digest of each. Raises StoreError."""
        rows = [{"app": app, "digest": digest, "store": store} for digest, store in placements.items()]
        if rows:

            def place(transaction: SqlTransaction) -> None:
                transaction.connection.execute(_PLACE, rows)

            self._written(place)

    def placement(self, app: str, user: str) -> UserPlace | None:
        """The other store that a user is in; None: no note says so. Raises StoreError."""
        found = self._database.rows(_note_of(app, user), {})
        return UserPlace(found[0].store, found[0].token) if found else None

    def user_rows(self, app: str, user: str, after: bytes) -> tuple[bytes, int, bytes]:
        """A part of a user's rows, their number, and where the next part begins: see `PlacedStore`. Raises StoreError."""
        rows, place = read_part(lambda query: self._database.rows(query, {}), app, user, after)
        return msgspec.msgpack.encode(rows), len(rows), place

    def arrivals(self, app: str) -> list[Arrival]:
        """The users of whom something has arrived. Raises StoreError."""
        query = select(_arrivals.c.user, _arrivals.c.raw).where(_arrivals.c.app == app, _arrivals.c.number == 0)
        return [_arrival(row.user, row.raw) for row in self._database.rows(query, {})]

    def begin_arrival(self, app: str, arrival: Arrival, replaces: str) -> None:
        """Take parts of a user: see `PlacedStore`. Raises StoreConflictError, StoreError."""

        def begin(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            found = _found(connection, app, arrival.user)
            if found is not None and found.token not in (arrival.token, replaces):
                raise StoreConflictError(_other_move(arrival.user))
            if count_rows(connection, app, arrival.user):
                raise StoreError(f"{self} has data of user {arrival.user!r} already")
            connection.execute(delete(_arrivals).where(_arrivals.c.app == app, _arrivals.c.user == arrival.user))
            raw = msgspec.msgpack.encode((arrival.token, arrival.source))
            connection.execute(insert(_arrivals), {"app": app, "user": arrival.user, "number": 0, "raw": raw})

        self._written(begin)

    def stage(self, app: str, user: str, token: str, number: int, raw: bytes) -> None:
        """Keep a part; one that is there stays. Raises StoreConflictError where another move has begun since, StoreError."""

        def keep(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            _checked(connection, app, user, token)
            of_part = (_arrivals.c.app == app, _arrivals.c.user == user, _arrivals.c.number == number)
            connection.execute(delete(_arrivals).where(*of_part))
            connection.execute(insert(_arrivals), {"app": app, "user": user, "number": number, "raw": raw})

        self._written(keep)

    def staged(self, app: str, user: str, token: str) -> list[UserRow]:
        """The rows of all parts, in their order. Raises StoreConflictError where another move has begun since, StoreError."""
        return _unpacked(self._kept(app, user, token))

    def arrival_digest(self, app: str, user: str, token: str) -> bytes:
        """The digest of all parts. Raises StoreConflictError where another move has begun since, StoreError."""
        return reduce(digest_with, self._kept(app, user, token), b"")

    def _kept(self, app: str, user: str, token: str) -> Iterator[bytes]:
        if (user, token) not in [(each.user, each.token) for each in self.arrivals(app)]:
            raise StoreConflictError(_other_move(user))
        return (bytes(row.raw) for row in self._database.rows(_parts(app, user), {}))

    def leave(self, app: str, user: str, placement: UserPlace, digest: bytes, before: bytes) -> None:
        """Remove all rows of a user, and note where the user is now: see `PlacedStore`. Raises StoreError."""

        def remove(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            row = connection.execute(_note_of(app, user)).one_or_none()
            if row is not None and UserPlace(row.store, row.token) == placement:
                # It was done before, and the reply was lost.
                return
            if row is not None or _digest(connection, app, user, before) != digest:
                raise StoreError(f"what {self} has of user {user!r} is not what was read: nothing is moved, move the user again")
            remove_rows(connection, app, user)
            note = {"app": app, "digest": user_digest(app, user), "store": placement.store, "token": placement.token}
            connection.execute(insert(_placements), note)

        self._written(remove)

    def admit(self, app: str, user: str, token: str) -> None:
        """Have a user here from now on, with the rows of all parts: see `PlacedStore`. Raises StoreError."""

        def write(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            if _found(connection, app, user) is None:
                # It was done before, and the reply was lost.
                return
            _checked(connection, app, user, token)
            write_rows(connection, _unpacked(row.raw for row in connection.execute(_parts(app, user))))
            connection.execute(delete(_arrivals).where(_arrivals.c.app == app, _arrivals.c.user == user))
            digest = user_digest(app, user)
            connection.execute(delete(_placements).where(_placements.c.app == app, _placements.c.digest == digest))

        self._written(write)

    def drop_arrival(self, app: str, user: str, token: str) -> None:
        """Forget what has arrived of a user by a move. Raises StoreError."""

        def drop(transaction: SqlTransaction) -> None:
            connection = transaction.connection
            found = _found(connection, app, user)
            if found is not None and found.token == token:
                connection.execute(delete(_arrivals).where(_arrivals.c.app == app, _arrivals.c.user == user))

        self._written(drop)

    def _written(self, work: Callable[[SqlTransaction], None]) -> None:
        """Do some work in a transaction of the holder of the claim. Raises StoreError."""
        try:
            with self._database.store_errors():
                self._commit(work)
        finally:
            # A user who was moved has sessions under other numbers, or none.
            self._forget_sids()

    @abstractmethod
    def _forget_sids(self) -> None:
        """Look the numbers of all sessions up again."""


def _note_of(app: str, user: str) -> Select[tuple[int, str]]:
    of_user = (_placements.c.app == app, _placements.c.digest == user_digest(app, user))
    return select(_placements.c.store, _placements.c.token).where(*of_user)


def _digest(connection: Connection, app: str, user: str, before: bytes) -> bytes:
    """The digest of a user's rows as they are now, in the parts in which they are read."""

    def found(query: Any) -> Rows:
        return connection.execute(query).fetchall()

    rows, place = read_part(found, app, user, b"")
    while place:
        before = digest_with(before, msgspec.msgpack.encode(rows))
        rows, place = read_part(found, app, user, place)
    return before


def _found(connection: Connection, app: str, user: str) -> Arrival | None:
    query = select(_arrivals.c.raw).where(_arrivals.c.app == app, _arrivals.c.user == user, _arrivals.c.number == 0)
    raw = connection.execute(query).scalar_one_or_none()
    return _arrival(user, raw) if raw is not None else None


def _checked(connection: Connection, app: str, user: str, token: str) -> None:
    found = _found(connection, app, user)
    if found is None or found.token != token:
        raise StoreConflictError(_other_move(user))


def _other_move(user: str) -> str:
    return f"another move of user {user!r} has begun, or this one was given up: nothing more is moved by it"


def _parts(app: str, user: str) -> Select[tuple[bytes]]:
    query = select(_arrivals.c.raw).where(_arrivals.c.app == app, _arrivals.c.user == user, _arrivals.c.number > 0)
    return query.order_by(_arrivals.c.number)


def _unpacked(parts: Iterable[bytes]) -> list[UserRow]:
    return [row for raw in parts for row in codec.decode(raw, list[UserRow])]


def _arrival(user: str, raw: bytes) -> Arrival:
    token, source = codec.decode(raw, tuple[str, int])
    return Arrival(user, token, source)


def read_part(rows: Callable[[Any], Rows], app: str, user: str, after: bytes) -> tuple[list[UserRow], bytes]:
    """A part of a user's rows, and where the next one begins; b"" at the begin, and after the last one.

    Args:
        rows: reads the rows of a query.
    """
    number, last = codec.decode(after, tuple[int, list[Any]]) if after else (0, [])
    for at in range(number, len(_TABLES)):
        table = _TABLES[at]
        key = schema.key_columns(table)
        query = select(table).where(_of_user(table, app, user)).order_by(*key).limit(PAGE)
        if at == number and last:
            query = query.where(tuple_(*key) > tuple_(*last))
        found = [{str(column): value for column, value in row._mapping.items()} for row in rows(query)]
        if found:
            place = (at, [found[-1][column.name] for column in key])
            return [(str(table.name), row) for row in found], msgspec.msgpack.encode(place)
    return [], b""


def count_rows(connection: Connection, app: str, user: str) -> int:
    """The number of a user's rows in all tables."""
    queries = (select(func.count()).select_from(table).where(_of_user(table, app, user)) for table in _TABLES)
    return sum(connection.execute(query).scalar_one() for query in queries)


def remove_rows(connection: Connection, app: str, user: str) -> None:
    """Remove all rows of a user."""
    for table in (*OF_SESSIONS, *OF_USERS, schema.shared_versions, schema.sessions):
        connection.execute(delete(table).where(_of_user(table, app, user)))


def write_rows(connection: Connection, rows: Iterable[UserRow]) -> None:
    """Write rows as they were read, under numbers of this store. Rows of tables that no session store has are left out."""
    sids: dict[int, int] = {}
    for name, row in rows:
        table = _BY_NAME.get(name)
        if table is schema.sessions:
            values = {column: value for column, value in row.items() if column != "sid"}
            sids[row["sid"]] = connection.execute(insert(table).values(**values).returning(table.c.sid)).scalar_one()
        elif table is not None:
            connection.execute(insert(table), {**row, "sid": sids[row["sid"]]} if "sid" in row else row)
    for sid in sids.values():
        derive_authors(connection, sid)


def _of_user(table: Table, app: str, user: str) -> ColumnElement[bool]:
    if table in OF_SESSIONS:
        sessions = schema.sessions.c
        return table.c.sid.in_(select(sessions.sid).where(sessions.app == app, sessions.user == user))
    return and_(table.c.app == app, table.c.user == user)
