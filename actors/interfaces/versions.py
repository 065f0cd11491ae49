"""Where a Session actor finds the versions of the tree that its deployment has got by updates."""

from __future__ import annotations

from typing import Protocol

from actors.messages.operating.versions import TreeVersion


class VersionSource(Protocol):
    """Keeps versions of a tree."""

    async def version(self, version: str) -> TreeVersion:
        """A version by its name. Raises ClusterError when it is not kept, or cannot be read."""
        ...
