"""Updates: which versions of the tree turns need, and which of them new turns get."""

from __future__ import annotations

from actors.actor import Handlers
from actors.messages import protocol as p
from actors.session.service import SessionService
from actors.session.turns.parts import SessionParts


class Updates(SessionService):
    """Answers GetVersions and UseVersions."""

    def __init__(self, parts: SessionParts) -> None:
        self._versions = parts.versions

    def handlers(self) -> Handlers:
        """Its messages."""
        return {p.GetVersions: self._versions.get_versions, p.UseVersions: self._versions.use_versions}
