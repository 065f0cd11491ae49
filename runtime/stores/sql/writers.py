"""Claims to the places of writers: each place has one holder, and each commit of a store with a claim looks if that is its own.

Rules of this file:

- The row of a place has its holder and the number of the holder's last commit. A commit changes it from the number that it
  knows to the next. So the first commit to a database that has gone back to an older copy of itself, as after a fail-over to a
  replica that lags, notices that, whatever it writes, in its own transaction and without a statement more.
- Numbers only go up, also from one holder to the next, and none is used twice. So a higher one of another holder is that of a
  successor, and a lower one is from the past.
- On PostgreSQL a commit locks the row of its place until it ends. So the next holder waits for what the one before is committing,
  reads all of it afterwards, and nothing more comes. The server ends a commit that stands still, as that of a machine that is
  gone, so this takes seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

from sqlalchemy import text

from actors.errors import StoreRevertedError, WriterReplacedError
from runtime.stores.owner import StoreOwner
from runtime.stores.sql.database import Database, SqlStore, SqlTransaction
from runtime.stores.sql.owners import RENEW_S, Ownership

IDLE_S = 10
"""How long a commit may stand still on PostgreSQL, in seconds."""

_TAKE = text(
    "INSERT INTO raygrove_writers (writer, holder, deployment) VALUES (:writer, :holder, :deployment) "
    "ON CONFLICT (writer) DO UPDATE SET holder = excluded.holder"
)
_LEAVE = text("DELETE FROM raygrove_writers WHERE writer = :writer AND holder = :holder")
_HOLDER = "SELECT holder FROM raygrove_writers WHERE writer = ?"
_LOCK_HOLDER = f"{_HOLDER} FOR UPDATE"
_COUNT = "UPDATE raygrove_writers SET holder = ? WHERE writer = ? AND holder = ? RETURNING 1"
_COUNT_AND_LIMIT = f"{_COUNT}, set_config('idle_in_transaction_session_timeout', '{IDLE_S}s', true)"


class WriterClaim:
    """A holder of a place.

    Args:
        writer: the place.
        deployment: of the store's owner; "": the store has none.
        number: no commit has this number or a lower one.

    Attributes:
        holder: unlike that of any other claim.
        number: of the last commit that was begun.
    """

    def __init__(self, writer: str, deployment: str = "", number: int = 0) -> None:
        self.writer = writer
        self.holder = uuid4().hex
        self.number = number
        self._deployment = deployment
        # As the row was after the last commit that is known to be done.
        self._done = number

    def take_place(self, transaction: SqlTransaction) -> None:
        """Take the place from its holder, if it has one."""
        before, _ = _parsed(self._row(transaction))
        # The microseconds outrun all commits, and what has left the place before has left no number.
        self.number = max(self.number, before, time.time_ns() // 1_000) + 1
        taken = {"writer": self.writer, "holder": self._stored(self.number), "deployment": self._deployment}
        transaction.connection.execute(_TAKE, taken)

    def count(self, transaction: SqlTransaction) -> None:
        """Note one more commit, in its transaction.

        Raises:
            WriterReplacedError: another one has the place.
            StoreRevertedError: the database is older than a commit that is done.
        """
        self.number += 1
        if self._changed(transaction, self._stored(self._done)):
            return
        row = self._row(transaction)
        if row is None:
            # Of what another owner leaves, the next `claim` knows.
            raise StoreRevertedError(self.writer)
        number, holder = _parsed(row)
        if number and number < self._done:
            raise StoreRevertedError(self.writer)
        # It may be ours: the connection broke while the database was committing, and it has.
        if holder != self.holder or not self._changed(transaction, row):
            raise WriterReplacedError(self.writer)

    def note_done(self) -> None:
        """The transaction of the last `take_place` or `count` was committed."""
        self._done = self.number

    def leave(self, transaction: SqlTransaction) -> None:
        """Leave the place, if it is not another one's."""
        row = self._row(transaction)
        if _parsed(row)[1] == self.holder:
            transaction.connection.execute(_LEAVE, {"writer": self.writer, "holder": row})

    def _row(self, transaction: SqlTransaction) -> str | None:
        found = transaction.found(_HOLDER if transaction.is_sqlite else _LOCK_HOLDER, (self.writer,))
        return found[0][0] if found else None

    def _changed(self, transaction: SqlTransaction, before: str) -> bool:
        """Put the number into the row, if that is as it is said to be."""
        given = (self._stored(self.number), self.writer, before)
        return bool(transaction.found(_COUNT if transaction.is_sqlite else _COUNT_AND_LIMIT, given))

    def _stored(self, number: int) -> str:
        return f"{number} {self.holder}"


def _parsed(row: str | None) -> tuple[int, str]:
    """The number of the last commit, and the holder. The number is 0 where an older release has taken the place."""
    number, _, holder = (row or "").rpartition(" ")
    return (int(number) if number.isdecimal() else 0), holder


class FencedSqlStore(SqlStore):
    """See `StoreClaims`, for a store that writes by `_commit` alone.

    Attributes:
        owner: the deployment that opens it, and owns the database with its claim; None: it owns none, and is refused by none.
    """

    owner: StoreOwner | None = None

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._claim: WriterClaim | None = None
        self._ownership: Ownership | None = None

    @property
    def renew_s(self) -> float | None:
        """The seconds after which the claim has to be renewed, each time; None: never."""
        return RENEW_S if self.owner is not None and self.owner.renews and _has_others(self._database) else None

    def claim(self, writer: str) -> None:
        """Take a writer's place: commits of a store that has claimed it before raise WriterReplacedError.

        A store that has claimed it itself takes the database as it is: see `StoreClaims.claim`.

        Raises:
            StoreInUseError: another deployment of the owner's app owns the database, and lives.
            StoreUnavailableError: the database is away or locked, or another deployment owns it and may live.
            StoreError: the database failed.
        """
        if self.owner is None or not _has_others(self._database):
            self._ownership = None
        elif self._ownership is None or self._ownership.owner != self.owner:
            self._ownership = Ownership(self.owner, str(self), self._database.path)
        deployment = self.owner.deployment if self._ownership is not None and self.owner is not None else ""
        claim = WriterClaim(writer, deployment, self._claim.number if self._claim is not None else 0)

        def take(transaction: SqlTransaction) -> None:
            if self._ownership is not None:
                self._ownership.take_ownership(transaction)
            claim.take_place(transaction)

        self._within(take)
        claim.note_done()
        self._claim = claim

    def renew_claim(self) -> None:
        """Have the claim last for its time again. Raises WriterReplacedError, StoreRevertedError, StoreError."""

        def renew(transaction: SqlTransaction) -> None:
            if self._ownership is not None:
                self._ownership.renew(transaction.connection)

        with self._database.store_errors():
            self._commit(renew)

    def give_up_claim(self) -> None:
        """Leave the place, and the database. Raises StoreError."""
        claim = self._claim
        if claim is None:
            return

        def leave(transaction: SqlTransaction) -> None:
            claim.leave(transaction)
            if self._ownership is not None:
                self._ownership.leave(transaction.connection)

        self._within(leave)
        self._claim = None

    def _commit(self, work: Callable[[SqlTransaction], None]) -> None:
        """Do some work in a transaction of the holder of the claim.

        Raises:
            WriterReplacedError: another store has claimed the place.
            StoreRevertedError: the database has gone back to an older copy of itself.
            sqlalchemy.exc.SQLAlchemyError: what `Database.transaction` raises.
        """
        claim = self._claim
        with self._database.transaction() as transaction:
            if claim is not None:
                claim.count(transaction)
            work(transaction)
        if claim is not None:
            claim.note_done()


def _has_others(database: Database) -> bool:
    """Whether other processes can reach a database."""
    return not database.is_sqlite or database.path is not None
