"""The other Session actors over the same store."""

from __future__ import annotations

from collections.abc import Mapping

from actors.messages.session import Shard
from actors.refs.session import SessionRef
from actors.session.environment import FindPeers


class Peers:
    """Finds clients of the others once.

    Args:
        shard: that of this actor.
        find: finds them; None: they cannot be reached.

    Attributes:
        shards: those of the others; none if they cannot be reached.
    """

    def __init__(self, shard: Shard, find: FindPeers | None) -> None:
        self.shard = shard
        self.shards = tuple(index for index in range(shard.of) if index != shard.index) if find is not None else ()
        self._find = find
        self._found: Mapping[int, SessionRef] | None = None

    async def of(self, shard: int) -> SessionRef:
        """A client of the one that serves a shard. Raises what the finding of it raises."""
        if self._found is None:
            assert self._find is not None
            self._found = await self._find()
        return self._found[shard]
