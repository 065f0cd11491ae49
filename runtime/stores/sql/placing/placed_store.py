"""A SQL store that knows its place among several, and the users that are in another one."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, delete, insert, select, text

from actors.messages.operating.store_seat import StoreSeat
from runtime.stores.sql import schema
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


class PlacedSqlStore(FencedSqlStore):
    """The methods of `ClusterStore` for users in several stores."""

    def seat(self, app: str) -> StoreSeat | None:
        """The store's place in the list of an app's stores; None: it has none. Raises StoreError."""
        found = self._database.rows(_SEAT, {"app": app})
        return StoreSeat(*found[0]) if found else None

    def take_seat(self, app: str, seat: StoreSeat) -> None:
        """Keep another place in the list. Raises StoreError."""

        def take(connection: Connection) -> None:
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
            with self._database.store_errors():
                self._commit(lambda connection: _place(connection, rows))


def _place(connection: Connection, rows: list[dict[str, object]]) -> None:
    connection.execute(_PLACE, rows)
