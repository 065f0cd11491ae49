"""A SQL store from which a user can be moved to another one, and to which one can be moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from sqlalchemy import Connection, Select, delete, insert, select

from actors.errors import StoreConflictError, StoreError
from actors.messages.operating.store_seat import Arrival
from actors.rules.placing.homes import user_digest
from runtime.stores.sql import schema
from runtime.stores.sql.placing.placed_store import PlacedSqlStore
from runtime.stores.sql.placing.user_rows import UserRow, count_rows, read_part, remove_rows, write_rows
from runtime.stores.sql.session_rows import SessionRows

_arrivals = schema.arrivals
_placements = schema.placements


class MovingSqlStore(PlacedSqlStore):
    """Implements `MovesUsers`."""

    _of: SessionRows

    def placement(self, app: str, user: str) -> int | None:
        """The number of the other store that a user is in; None: no note says so. Raises StoreError."""
        query = select(_placements.c.store).where(_placements.c.app == app, _placements.c.digest == user_digest(app, user))
        found = self._database.rows(query, {})
        return int(found[0].store) if found else None

    def user_rows(self, app: str, user: str, after: bytes) -> tuple[bytes, int, bytes]:
        """A part of a user's rows, their number, and where the next part begins: see `MovesUsers`. Raises StoreError."""
        rows, place = read_part(lambda query: self._database.rows(query, {}), app, user, after)
        return msgspec.msgpack.encode(rows), len(rows), place

    def arrivals(self, app: str) -> list[Arrival]:
        """The users of whom something has arrived. Raises StoreError."""
        query = select(_arrivals.c.user, _arrivals.c.raw).where(_arrivals.c.app == app, _arrivals.c.number == 0)
        return [_arrival(row.user, row.raw) for row in self._database.rows(query, {})]

    def begin_arrival(self, app: str, arrival: Arrival) -> None:
        """Take parts of a user, in place of those of an earlier move. Raises StoreError, also where the user has data here."""

        def begin(connection: Connection) -> None:
            if count_rows(connection, app, arrival.user):
                raise StoreError(f"{self} has data of user {arrival.user!r} already")
            connection.execute(delete(_arrivals).where(_arrivals.c.app == app, _arrivals.c.user == arrival.user))
            raw = msgspec.msgpack.encode((arrival.token, arrival.source))
            connection.execute(insert(_arrivals), {"app": app, "user": arrival.user, "number": 0, "raw": raw})

        self._written(begin)

    def stage(self, app: str, user: str, token: str, number: int, raw: bytes) -> None:
        """Keep a part; one that is there stays. Raises StoreConflictError where another move has begun since, StoreError."""

        def keep(connection: Connection) -> None:
            _checked(connection, app, user, token)
            of_part = (_arrivals.c.app == app, _arrivals.c.user == user, _arrivals.c.number == number)
            connection.execute(delete(_arrivals).where(*of_part))
            connection.execute(insert(_arrivals), {"app": app, "user": user, "number": number, "raw": raw})

        self._written(keep)

    def staged(self, app: str, user: str, token: str) -> list[UserRow]:
        """The rows of all parts, in their order. Raises StoreConflictError where another move has begun since, StoreError."""
        if (user, token) not in [(each.user, each.token) for each in self.arrivals(app)]:
            raise StoreConflictError(f"another move of user {user!r} has begun, or this one was given up")
        return _unpacked(row.raw for row in self._database.rows(_parts(app, user), {}))

    def leave(self, app: str, user: str, to: int, rows: int) -> None:
        """Remove all rows of a user, and note where the user is now: see `MovesUsers`. Raises StoreError."""

        def remove(connection: Connection) -> None:
            found = count_rows(connection, app, user)
            if not found and _placed(connection, app, user) == to:
                # It was done before, and the reply was lost.
                return
            if found != rows:
                raise StoreError(f"user {user!r} has {found} rows in {self}, and {rows} were read: nothing is moved")
            remove_rows(connection, app, user)
            _note(connection, app, user, to)

        self._written(remove)

    def admit(self, app: str, user: str, token: str) -> None:
        """Have a user here from now on, with the rows of all parts: see `MovesUsers`. Raises StoreError."""

        def write(connection: Connection) -> None:
            if _found(connection, app, user) is None:
                # It was done before, and the reply was lost.
                return
            _checked(connection, app, user, token)
            write_rows(connection, _unpacked(row.raw for row in connection.execute(_parts(app, user))))
            connection.execute(delete(_arrivals).where(_arrivals.c.app == app, _arrivals.c.user == user))
            digest = user_digest(app, user)
            connection.execute(delete(_placements).where(_placements.c.app == app, _placements.c.digest == digest))

        self._written(write)

    def drop_arrival(self, app: str, user: str) -> None:
        """Forget what has arrived of a user. Raises StoreError."""

        def drop(connection: Connection) -> None:
            connection.execute(delete(_arrivals).where(_arrivals.c.app == app, _arrivals.c.user == user))

        self._written(drop)

    def _written(self, work: Callable[[Connection], None]) -> None:
        """Do some work in a transaction of the holder of the claim. Raises StoreError."""
        try:
            with self._database.store_errors():
                self._commit(work)
        finally:
            # A user who was moved has sessions under other numbers, or none.
            self._of.forget_sids()


def _note(connection: Connection, app: str, user: str, to: int) -> None:
    digest = user_digest(app, user)
    connection.execute(delete(_placements).where(_placements.c.app == app, _placements.c.digest == digest))
    connection.execute(insert(_placements), {"app": app, "digest": digest, "store": to})


def _placed(connection: Connection, app: str, user: str) -> int | None:
    query = select(_placements.c.store).where(_placements.c.app == app, _placements.c.digest == user_digest(app, user))
    return connection.execute(query).scalar_one_or_none()


def _found(connection: Connection, app: str, user: str) -> Arrival | None:
    query = select(_arrivals.c.raw).where(_arrivals.c.app == app, _arrivals.c.user == user, _arrivals.c.number == 0)
    raw = connection.execute(query).scalar_one_or_none()
    return _arrival(user, raw) if raw is not None else None


def _checked(connection: Connection, app: str, user: str, token: str) -> None:
    found = _found(connection, app, user)
    if found is None or found.token != token:
        raise StoreConflictError(
            f"another move of user {user!r} has begun, or this one was given up: nothing more is moved by it"
        )


def _parts(app: str, user: str) -> Select[tuple[bytes]]:
    query = select(_arrivals.c.raw).where(_arrivals.c.app == app, _arrivals.c.user == user, _arrivals.c.number > 0)
    return query.order_by(_arrivals.c.number)


def _unpacked(parts: Iterable[bytes]) -> list[UserRow]:
    return [row for raw in parts for row in msgspec.msgpack.decode(raw, type=list[UserRow])]


def _arrival(user: str, raw: bytes) -> Arrival:
    token, source = msgspec.msgpack.decode(raw, type=tuple[str, int])
    return Arrival(user, token, source)
