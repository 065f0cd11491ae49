"""A store that is owned by no deployment: programs of an older release open stores so."""

from __future__ import annotations

from runtime.stores.sql.sessions import SqlSessionStore


class UnownedStore(SqlSessionStore):
    """May be written beside the deployment that owns the database."""

    def claim(self, writer: str) -> None:
        """Take the place, and not the database."""
        self.owner = None
        super().claim(writer)
