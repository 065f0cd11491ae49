"""Who may write: each place of a writer has one holder, and each commit of a store with a claim to one looks if it is that.

On PostgreSQL a commit locks the row of its place, shared, until it ends. So the next holder waits for what the one before is
committing, reads all of it afterwards, and nothing more comes. The server ends a commit that stands still, as that of a machine
that is gone, so this takes seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from sqlalchemy import Connection, text

from actors.errors import WriterReplacedError
from runtime.stores.sql import statements
from runtime.stores.sql.database import Database
from runtime.stores.sql.store import SqlStore

IDLE_S = 10
"""How long a commit may stand still on PostgreSQL, in seconds."""

_TAKE = text(
    "INSERT INTO raygrove_writers (writer, holder) VALUES (:writer, :holder) "
    "ON CONFLICT (writer) DO UPDATE SET holder = excluded.holder"
)
_LEAVE = text("DELETE FROM raygrove_writers WHERE writer = :writer AND holder = :holder")
_HOLDER = "SELECT holder FROM raygrove_writers WHERE writer = ?"
_LOCK_HOLDER = (
    f"SELECT holder, set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', true) "
    "FROM raygrove_writers WHERE writer = %s FOR SHARE"
)


@dataclass(frozen=True)
class Claim:
    """A holder of a place.

    Attributes:
        writer: the place.
        holder: unlike that of any other claim.
    """

    writer: str
    holder: str = field(default_factory=lambda: uuid4().hex)

    def take(self, connection: Connection) -> None:
        """Take the place from its holder, if it has one."""
        connection.execute(_TAKE, {"writer": self.writer, "holder": self.holder})

    def check(self, connection: Connection) -> None:
        """Raise WriterReplacedError when another one has the place."""
        # SQLite has one transaction that writes at a time.
        query = _HOLDER if connection.dialect.name == "sqlite" else _LOCK_HOLDER
        if statements.value(connection, query, self.writer) != self.holder:
            raise WriterReplacedError(self.writer)

    def leave(self, connection: Connection) -> None:
        """Forget the place, unless another one has it."""
        connection.execute(_LEAVE, {"writer": self.writer, "holder": self.holder})


class FencedSqlStore(SqlStore):
    """Implements `FencesWriters` for a store that calls `_check_claim` in each of its transactions that write."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._claim: Claim | None = None

    def claim(self, writer: str) -> None:
        """Take a writer's place: commits of a store that has claimed it before raise WriterReplacedError. Raises StoreError."""
        claim = Claim(writer)
        self._within(claim.take)
        self._claim = claim

    def give_up_claim(self) -> None:
        """Leave the place. Raises StoreError."""
        if self._claim is not None:
            self._within(self._claim.leave)
            self._claim = None

    def _check_claim(self, connection: Connection) -> None:
        if self._claim is not None:
            self._claim.check(connection)
