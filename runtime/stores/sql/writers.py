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
from runtime.stores.owner import Owner
from runtime.stores.sql import statements
from runtime.stores.sql.database import Database
from runtime.stores.sql.owners import RENEW_S, Ownership
from runtime.stores.sql.store import SqlStore

IDLE_S = 10
"""How long a commit may stand still on PostgreSQL, in seconds."""

_TAKE = text(
    "INSERT INTO raygrove_writers (writer, holder, deployment) VALUES (:writer, :holder, :deployment) "
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
        deployment: of the store's owner; "": the store has none.
    """

    writer: str
    holder: str = field(default_factory=lambda: uuid4().hex)
    deployment: str = ""

    def take(self, connection: Connection) -> None:
        """Take the place from its holder, if it has one."""
        connection.execute(_TAKE, {"writer": self.writer, "holder": self.holder, "deployment": self.deployment})

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
    """Implements `RenewsClaims` for a store that calls `_check_claim` in each of its transactions that write.

    Attributes:
        owner: the deployment that opens it, and owns the database with its claim; None: it owns none, and is refused by none.
    """

    owner: Owner | None = None

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._claim: Claim | None = None
        self._ownership: Ownership | None = None

    @property
    def renew_s(self) -> float | None:
        """How often the claim has to be renewed, in seconds; None: never."""
        return RENEW_S if self.owner is not None and self.owner.renews and self._has_others() else None

    def claim(self, writer: str) -> None:
        """Take a writer's place: commits of a store that has claimed it before raise WriterReplacedError.

        Raises:
            StoreInUseError: another deployment of the owner's app owns the database, and lives.
            StoreUnavailableError: the database is away or locked, or another deployment owns it and may live.
            StoreError: the database failed.
        """
        if self.owner is None or not self._has_others():
            self._ownership = None
        elif self._ownership is None or self._ownership.owner != self.owner:
            self._ownership = Ownership(self.owner, str(self), self._database.path)
        claim = Claim(writer, deployment=self.owner.deployment if self._ownership is not None and self.owner is not None else "")

        def take(connection: Connection) -> None:
            if self._ownership is not None:
                self._ownership.take(connection)
            claim.take(connection)

        self._within(take)
        self._claim = claim

    def renew_claim(self) -> None:
        """Have the claim last for its time again. Raises WriterReplacedError, StoreError."""

        def renew(connection: Connection) -> None:
            self._check_claim(connection)
            if self._ownership is not None:
                self._ownership.renew(connection)

        self._within(renew)

    def give_up_claim(self) -> None:
        """Leave the place, and the database. Raises StoreError."""
        claim = self._claim
        if claim is None:
            return

        def leave(connection: Connection) -> None:
            claim.leave(connection)
            if self._ownership is not None:
                self._ownership.leave(connection)

        self._within(leave)
        self._claim = None

    def _check_claim(self, connection: Connection) -> None:
        if self._claim is not None:
            self._claim.check(connection)

    def _has_others(self) -> bool:
        """Whether other processes can reach the database."""
        return not self._database.is_sqlite or self._database.path is not None
